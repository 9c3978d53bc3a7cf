"""Alias test for two accesses whose enclosing loops are in given relations.

The variables of the loops around both are `x` for the first access and `x + e` for the second;
other loops have separate variables. The accesses alias where all differences of their indices are
0. Each difference is tested by its bounds and by the gcd of its coefficients. A difference with a
single term fixes that variable, after which the others are tested again (the delta test of Goff,
Kennedy and Tseng, 1991). Undecided cases are enumerated if there are few iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir.affine import AffineExpr

from tcopt.dialects.loop import ForOp
from tcopt.schedules.dependences.touches import Touch
from tcopt.support.arithmetic.affine import (
    Dim,
    FloorDiv,
    LinearSum,
    Range,
    linear_sum,
    substitute,
    sum_range,
)

_POINTS = 1 << 15
"""Maximum number of pairs of iterations to enumerate; more would slow down a compile."""


class Relation(Enum):
    """Order of a loop's iteration in the first access relative to that in the second."""

    EQUAL = 0
    BEFORE = 1
    AFTER = -1
    ANY = 2


def may_meet(first: Touch, second: Touch, relations: Mapping[ForOp, Relation]) -> bool:
    """Whether two accesses to one buffer may alias.

    Args:
        relations: for loops around both accesses; `ANY` for loops that are not listed.
    """
    space = _Space(first, second, relations)
    if space.is_empty:
        return False
    left, right = first.indices, second.indices
    if left is None or right is None:
        return True
    differences: list[_Difference] = []
    for position, (a, b) in enumerate(zip(left, right, strict=True)):
        if a is None or b is None:
            continue
        low, high = first.reach[position]
        other_low, other_high = second.reach[position]
        expr = substitute(b, space.second) - substitute(a, space.first)
        differences.append(_Difference(expr, other_low - high, other_high - low))
    return _feasible(differences, space.ranges) and _has_point(differences, space, first, second)


class _Difference:
    """An index difference: accesses may alias if `expr` plus some value in [low, high] is 0."""

    def __init__(self, expr: AffineExpr, low: int, high: int):
        self.expr, self.low, self.high = expr, low, high


class _Space:
    """Loop variables of two accesses: those of common loops, then those of the other loops."""

    def __init__(self, first: Touch, second: Touch, relations: Mapping[ForOp, Relation]):
        self.ranges: list[Range] = []
        self.first: list[AffineExpr] = []
        self.second: list[AffineExpr] = []
        self.is_empty = any(loop.trip_count == 0 for loop in (*first.loops, *second.loops))
        common = [a for a, b in zip(first.loops, second.loops, strict=False) if a is b]
        for loop in common:
            self._add_common(loop.trip_count, relations.get(loop, Relation.ANY))
        for loops, exprs in ((first.loops, self.first), (second.loops, self.second)):
            for loop in loops[len(common) :]:
                exprs.append(self._variable((0, loop.trip_count - 1)))
        self.steps = [
            (self.second[position], loop.trip_count) for position, loop in enumerate(common)
        ]

    def _variable(self, range_: Range) -> AffineExpr:
        self.ranges.append(range_)
        return AffineExpr.dimension(len(self.ranges) - 1)

    def _add_common(self, extent: int, relation: Relation) -> None:
        last = extent - 1
        start = self._variable((0, last))
        self.first.append(start)
        if relation is Relation.EQUAL:
            self.second.append(start)
            return
        if relation is not Relation.ANY and extent < 2:
            self.is_empty = True
        low = 1 if relation is Relation.BEFORE else -last
        high = -1 if relation is Relation.AFTER else last
        self.second.append(start + self._variable((min(low, high), max(low, high))))


def _feasible(differences: Sequence[_Difference], ranges: Sequence[Range]) -> bool:
    """Whether all differences may be 0 at once, judged one difference at a time."""
    known = list(ranges)
    while True:
        decided = False
        for each in differences:
            total = linear_sum(each.expr, known)
            low, high = sum_range(total, known)
            if low + each.low > 0 or high + each.high < 0 or not _divides(total, each):
                return False
            fixed = _decided(total, each)
            if fixed is None:
                continue
            position, value = fixed
            start, end = known[position]
            if not start <= value <= end:
                return False
            known[position] = (value, value)
            decided = True
        if not decided:
            return True


def _divides(total: LinearSum, difference: _Difference) -> bool:
    """Whether a value within the bounds is a multiple of the gcd of all coefficients."""
    common = gcd(*(factor for _, factor in total.terms))
    low, high = total.constant + difference.low, total.constant + difference.high
    return low <= 0 <= high if common == 0 else low <= high // common * common


def _decided(total: LinearSum, difference: _Difference) -> tuple[int, int] | None:
    """Return the variable of a difference with a single term, and its value."""
    if difference.low or difference.high or len(total.terms) != 1:
        return None
    atom, factor = total.terms[0]
    return (atom.position, -total.constant // factor) if isinstance(atom, Dim) else None


def _has_point(
    differences: Sequence[_Difference], space: _Space, first: Touch, second: Touch
) -> bool:
    """Whether some pair of iterations aliases, by enumeration; True if there are too many pairs."""
    ranges = space.ranges
    sizes = [high - low + 1 for low, high in ranges]
    if not differences or prod(sizes) > _POINTS:
        return True
    grid = np.ix_(*(np.arange(low, high + 1, dtype=np.int64) for low, high in ranges))
    alive = np.ones(sizes, np.bool_)
    for expr, extent in (
        *space.steps,
        *((substitute(e, space.first), n) for e, n in first.domain),
        *((substitute(e, space.second), n) for e, n in second.domain),
    ):
        value = _evaluate(linear_sum(expr, ranges), grid)
        alive &= (value >= 0) & (value < extent)
    for each in differences:
        value = _evaluate(linear_sum(each.expr, ranges), grid)
        alive &= (value + each.low <= 0) & (value + each.high >= 0)
    return bool(alive.any())


def _evaluate(total: LinearSum, grid: Sequence[NDArray[np.int64]]) -> Any:
    result: Any = total.constant
    for atom, factor in total.terms:
        if isinstance(atom, Dim):
            value: Any = grid[atom.position]
        else:
            inside = _evaluate(atom.operand, grid)
            is_quotient = isinstance(atom, FloorDiv)
            value = inside // atom.divisor if is_quotient else inside % atom.divisor
        result = result + factor * value
    return result
