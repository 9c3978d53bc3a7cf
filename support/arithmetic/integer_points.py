"""Integer points of linear constraints over bounded variables.

`System` decides whether sums of variables can all be inside of their windows at once. Quotients and
remainders are variables of their own. Until nothing changes:

- bounds of the variables are tightened by each constraint;
- an equation without a solution modulo the gcd of its coefficients is infeasible;
- an equation such as `16 * d + e = 0` with `|e| < 16` is two equations, `d = 0` and `e = 0`, as its
  terms are digits of a number (delinearisation: Maslov, 1992);
- an equation with a coefficient of 1 or -1 is solved for its variable.

The rest is searched by halving ranges. Every answer but `Unknown` is exact.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from xdsl.ir.affine import AffineExpr

from tcopt.support.arithmetic.affine import Dim, FloorDiv, LinearSum, linear_sum
from tcopt.support.arithmetic.intervals import (
    Range,
    meet,
    multipliers,
    quotient,
    weighted_sum,
)

_NODES = 400
"""Maximum number of ranges to halve."""
_ROUNDS = 100
"""Maximum number of simplifications in a row: bounds may converge slowly."""


class Unknown(Exception):
    """The search ended without an answer."""


class _Infeasible(Exception):
    """The constraints have no solution."""


class Sum(NamedTuple):
    """`sum(coefficient * variable) + constant`."""

    terms: Mapping[int, int]
    constant: int = 0

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """Return `self + factor * other`."""
        terms = dict(self.terms)
        for variable, coefficient in other.terms.items():
            terms[variable] = terms.get(variable, 0) + factor * coefficient
        return Sum(terms, self.constant + factor * other.constant)


def _multiple(total: Sum, part: Sum) -> int:
    """Return how often a sum contains the terms of another one; 0 if not a whole number."""
    factor = 0
    for variable, coefficient in part.terms.items():
        ratio, rest = divmod(total.terms.get(variable, 0), coefficient)
        if rest or not ratio or factor not in (0, ratio):
            return 0
        factor = ratio
    return factor


class System:
    """Constraints on bounded integer variables, which are numbered."""

    def __init__(self) -> None:
        self._ranges: list[Range] = []
        # Bounds of sums, by their terms, which have no common divisor and begin with a positive
        # coefficient.
        self._windows: dict[tuple[tuple[int, int], ...], Range] = {}
        self._solved: dict[int, Sum] = {}
        # Divided sums and divisors, with quotients and remainders.
        self._divisions: list[tuple[Sum, int, tuple[Sum, Sum]]] = []
        self._is_empty = False

    def copy(self) -> System:
        """Return an independent copy."""
        other = System()
        other._ranges, other._windows = list(self._ranges), dict(self._windows)
        other._solved, other._divisions = dict(self._solved), list(self._divisions)
        other._is_empty = self._is_empty
        return other

    def variable(self, low: int, high: int) -> Sum:
        """Return a new variable with an inclusive range."""
        if low == high:
            return Sum({}, low)
        self._ranges.append((low, high))
        self._is_empty |= low > high
        return Sum({len(self._ranges) - 1: 1})

    def value(self, total: LinearSum, dims: Sequence[Sum]) -> Sum:
        """Return the value of a sum, given the value of each dimension."""
        found = Sum({}, total.constant)
        for atom, factor in total.terms:
            if isinstance(atom, Dim):
                found = found.plus(dims[atom.position], factor)
            else:
                parts = self._division(self.value(atom.operand, dims), atom.divisor)
                found = found.plus(parts[not isinstance(atom, FloorDiv)], factor)
        return found

    def _division(self, operand: Sum, divisor: int) -> tuple[Sum, Sum]:
        """Return the quotient and the remainder of a sum.

        A quotient is one of earlier quotients if possible, so that the digits of a number are
        variables: the quotient by 12 of a number below 144, and the quotient by 3 of the remainder.
        """
        operand = self._in_digits(operand, divisor)
        multiples = {v: f for v, f in operand.terms.items() if f % divisor == 0}
        outside, constant = divmod(operand.constant, divisor)
        whole = Sum({v: f // divisor for v, f in multiples.items()}, outside)
        inside = Sum({v: f for v, f in operand.terms.items() if v not in multiples}, constant)
        low, high = quotient(self.range_of(inside), divisor)
        if low == high:
            return whole.plus(Sum({}, low)), inside.plus(Sum({}, -low * divisor))
        for other, known, (part, rest) in self._divisions:
            if other == inside and divisor % known == 0:
                upper, lower = self._division(part, divisor // known)
                return whole.plus(upper), rest.plus(lower, known)
        part, rest = self.variable(low, high), self.variable(0, divisor - 1)
        self._divisions.append((inside, divisor, (part, rest)))
        self.require(inside.plus(part, -divisor).plus(rest, -1))
        return whole.plus(part), rest

    def _in_digits(self, total: Sum, divisor: int) -> Sum:
        """Replace parts of a sum by their quotients and remainders, if the quotients disappear from
        its remainder.
        """
        for other, known, (whole, rest) in self._divisions:
            factor = _multiple(total, other)
            if factor and factor * known % divisor == 0:
                total = total.plus(other, -factor)
                total = total.plus(whole, factor * known).plus(rest, factor)
                total = Sum({v: f for v, f in total.terms.items() if f}, total.constant)
        return total

    def range_of(self, total: Sum) -> Range:
        """Return bounds of a sum, from the ranges of its variables."""
        ranges = self._ranges
        terms = [(factor, ranges[variable]) for variable, factor in total.terms.items()]
        return weighted_sum(total.constant, terms)

    def require(self, total: Sum, low: int = 0, high: int = 0) -> None:
        """Add the constraint `low <= total <= high`."""
        if not self._is_empty:
            try:
                self._add(total, low, high)
            except _Infeasible:
                self._is_empty = True

    def simplify(self) -> None:
        """Simplify the constraints."""
        if not self._is_empty:
            try:
                self._simplify()
            except _Infeasible:
                self._is_empty = True

    def solve(self) -> list[int] | None:
        """Return values of all variables that meet the constraints; None if there are none.

        Raises:
            Unknown: the search is too long.
        """
        return self._search([_NODES])

    def _add(self, total: Sum, low: int, high: int) -> None:
        while solved := [variable for variable in total.terms if variable in self._solved]:
            for variable in solved:
                terms = dict(total.terms)
                factor = terms.pop(variable)
                total = Sum(terms, total.constant).plus(self._solved[variable], factor)
        low, high = low - total.constant, high - total.constant
        kept: list[tuple[int, int]] = []
        for variable, factor in total.terms.items():
            a, b = self._ranges[variable]
            if factor and a == b:
                low, high = low - factor * a, high - factor * a
            elif factor:
                kept.append((variable, factor))
        if not kept:
            if low > 0 or high < 0:
                raise _Infeasible
            return
        kept.sort()
        scale = gcd(*(factor for _, factor in kept))
        if kept[0][1] < 0:
            scale = -scale
        low, high = multipliers(scale, (low, high))
        key = tuple([(variable, factor // scale) for variable, factor in kept])
        if len(key) == 1:
            self._narrow(key[0][0], low, high)
            return
        if key in self._windows:
            low, high = meet((low, high), self._windows[key])
        if low > high:
            raise _Infeasible
        self._windows[key] = low, high

    def _narrow(self, variable: int, low: int, high: int) -> bool:
        """Narrow the range of a variable; return whether it changed."""
        old = self._ranges[variable]
        new = meet(old, (low, high))
        if new[0] > new[1]:
            raise _Infeasible
        self._ranges[variable] = new
        return new != old

    def _simplify(self) -> None:
        for _ in range(_ROUNDS):
            if not (self._tighten() or self._fold() or self._split() or self._eliminate()):
                break

    def _tighten(self) -> bool:
        """Narrow the ranges of variables by each constraint; drop constraints that always hold."""
        changed = False
        for key, (low, high) in list(self._windows.items()):
            total = Sum(dict(key))
            least, most = self.range_of(total)
            if least > high or most < low:
                raise _Infeasible
            if low <= least and most <= high:
                del self._windows[key]
                continue
            for variable, factor in key:
                a, b = self._ranges[variable]
                # Bounds of the product, from the bounds of the other terms.
                bottom = low - most + factor * (b if factor > 0 else a)
                top = high - least + factor * (a if factor > 0 else b)
                if self._narrow(variable, *multipliers(factor, (bottom, top))):
                    changed = True
                    least, most = self.range_of(total)
        return changed

    def _fold(self) -> bool:
        """Remove variables with one value from the constraints."""
        changed = False
        for key, (low, high) in list(self._windows.items()):
            if any(self._ranges[v][0] == self._ranges[v][1] for v, _ in key):
                del self._windows[key]
                self._add(Sum(dict(key)), low, high)
                changed = True
        return changed

    def _split(self) -> bool:
        """Split an equation whose terms are digits of a number."""
        for key, (low, high) in list(self._windows.items()):
            if low != high:
                continue
            terms = sorted(key, key=lambda term: abs(term[1]))
            for position in range(1, len(terms)):
                small, large = Sum(dict(terms[:position])), Sum(dict(terms[position:]))
                base = gcd(*large.terms.values())
                least, most = self.range_of(small)
                # The small terms add up to a value that is `low` modulo `base`.
                first = least + (low - least) % base
                if first > most:
                    raise _Infeasible
                if first + base > most:
                    del self._windows[key]
                    self._add(small, first, first)
                    self._add(large, low - first, low - first)
                    return True
        return False

    def _eliminate(self) -> bool:
        """Solve an equation for a variable, and replace the variable."""
        for key, (low, high) in self._windows.items():
            found = next(((v, f) for v, f in key if abs(f) == 1), None) if low == high else None
            if found is None:
                continue
            variable, sign = found
            del self._windows[key]
            value = Sum({v: -sign * f for v, f in key if v != variable}, sign * low)
            self._solved[variable] = value
            self._add(value, *self._ranges[variable])
            for other, window in list(self._windows.items()):
                if any(v == variable for v, _ in other):
                    del self._windows[other]
                    self._add(Sum(dict(other)), *window)
            return True
        return False

    def _search(self, nodes: list[int]) -> list[int] | None:
        """Return a solution, by halving the range of a variable; None if there is none."""
        self.simplify()
        if self._is_empty:
            return None
        if not self._windows:
            return self._values()
        nodes[0] -= 1
        if nodes[0] < 0:
            raise Unknown
        used = {variable for key in self._windows for variable, _ in key}
        variable = min(used, key=lambda v: self._ranges[v][1] - self._ranges[v][0])
        low, high = self._ranges[variable]
        middle = (low + high) // 2
        for half in ((low, middle), (middle + 1, high)):
            part = self.copy()
            part._ranges[variable] = half
            if (found := part._search(nodes)) is not None:
                return found
        return None

    def _values(self) -> list[int]:
        """Return a solution, if no constraints are left."""
        found = [low for low, _ in self._ranges]
        for variable, value in reversed(self._solved.items()):
            terms = value.terms.items()
            found[variable] = value.constant + sum(factor * found[v] for v, factor in terms)
        return found


def determines(
    exprs: Sequence[AffineExpr], ranges: Sequence[Range], wanted: Collection[int]
) -> bool:
    """Whether the values of `exprs` determine all dimensions in `wanted`; False if unknown."""
    system = System()
    first = [system.variable(*range_) for range_ in ranges]
    steps = [system.variable(low - high, high - low) for low, high in ranges]
    second = [dim.plus(step) for dim, step in zip(first, steps, strict=True)]
    for value, range_ in zip(second, ranges, strict=True):
        system.require(value, *range_)
    for expr in exprs:
        total = linear_sum(expr, ranges)
        system.require(system.value(total, second).plus(system.value(total, first), -1))
    return not any(may_differ(system, [steps[position]]) for position in wanted)


def may_differ(system: System, steps: Sequence[Sum]) -> bool:
    """Whether the first sum that is not zero may be positive; True if that is unknown."""
    system.simplify()
    for position, step in enumerate(steps):
        part = system.copy()
        for other in steps[:position]:
            part.require(other)
        part.require(step, 1, part.range_of(step)[1])
        try:
            if part.solve() is not None:
                return True
        except Unknown:
            return True
    return False
