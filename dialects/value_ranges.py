"""Value range analysis of arith values.

    %0 = te.read %r[%i] : tensor<7xi64>                  any i64
    %1 = arith.maxsi %0, %c0 : i64                       [0, 2^63)
    %2 = arith.minsi %1, %c99 : i64                      [0, 99]
    %3 = arith.index_cast %2 : i64 to index              [0, 99]

A value loaded from memory may be any value of its type, nan included; bounds follow from the
operations applied to it, and from conditions: those of selects and of enclosing `scf.if` ops. A
float outside the range of an integer type may convert to any integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import AnyFloat, Float64Type, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects import arith_
from tcopt.support.arithmetic.intervals import Range

_DEPTH = 64
"""Maximum depth of a chain of operations to analyse; beyond it, any value is assumed."""

_CHOICES = 6
"""Maximum nesting of selects whose conditions are taken into account."""


@dataclass(frozen=True)
class Interval:
    """Values from `low` to `high` (ints for an integer value), and nan if `nan` is set."""

    low: float
    high: float
    nan: bool = False

    def join(self, other: Interval) -> Interval:
        """Return the union of both, widened to an interval."""
        return Interval(min(self.low, other.low), max(self.high, other.high), self.nan or other.nan)

    def meet(self, other: Interval) -> Interval:
        """Return the intersection of both, which may be empty."""
        return Interval(
            max(self.low, other.low), min(self.high, other.high), self.nan and other.nan
        )

    def within(self, low: float, high: float) -> bool:
        """Whether all values are in `[low, high]` and none is nan."""
        return not self.nan and low <= self.low and self.high <= high


_REALS = Interval(-math.inf, math.inf, True)


def _width(type_: Attribute) -> int:
    """Return the bit width of an integer; an index has 64."""
    return type_.bitwidth if isinstance(type_, IntegerType) else 64


def all_of(type_: Attribute) -> Interval:
    """Return the range of a type; integers are treated as signed."""
    if isinstance(type_, AnyFloat):
        return _REALS
    bits = _width(type_)
    return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


Leaf = Callable[[SSAValue, "ValueRanges"], Range | None]
Combine = Callable[[float, float], float]
"""The range of a value that no arith operation computes; None if nothing is known."""


class ValueRanges:
    """The ranges of values at one point of a program.

    Args:
        leaf: returns the known range of values such as loop variables.
        facts: additional bounds of values that hold at this point.
    """

    def __init__(
        self, leaf: Leaf, facts: Mapping[SSAValue, Interval] | None = None, choices: int = 0
    ):
        self._leaf = leaf
        self._facts: dict[SSAValue, Interval] = dict(facts or {})
        self._choices = choices
        self._known: dict[SSAValue, Interval] = {}
        self._depth = 0

    def integers(self, value: SSAValue) -> Range:
        """Return the range of an integer or index."""
        found = self.of(value)
        return int(found.low), int(found.high)

    def of(self, value: SSAValue) -> Interval:
        """Return the range of a value."""
        found = self._known.get(value)
        if found is not None:
            return found
        if self._depth >= _DEPTH:
            return all_of(value.type)
        self._depth += 1
        found = self._computed(value)
        self._depth -= 1
        if value in self._facts:
            found = found.meet(self._facts[value])
        self._known[value] = found
        return found

    def assuming(self, condition: SSAValue, holds: bool) -> ValueRanges:
        """Return the ranges where a condition holds, or where it does not."""
        facts = dict(self._facts)
        for value, limit in self._implied(condition, holds):
            facts[value] = facts[value].meet(limit) if value in facts else limit
        return ValueRanges(self._leaf, facts, self._choices + 1)

    def _computed(self, value: SSAValue) -> Interval:
        owner, whole = value.owner, all_of(value.type)
        if isinstance(owner, arith_.SelectOp):
            return self._selected(owner)
        if isinstance(owner, arith.ConstantOp):
            return _constant(owner) or whole
        if isinstance(owner, Operation) and (rule := _RULES.get(type(owner))) is not None:
            operands = [self.of(operand) for operand in owner.operands]
            if isinstance(owner, _READS_UNSIGNED):
                operands = [_as_unsigned(operands[0], owner.operands[0].type)]
            found = rule(value.type, *operands)
            return whole if found is None else _fitted(found, whole)
        known = self._leaf(value, self)
        return whole if known is None else _fitted(Interval(*known), whole)

    def _selected(self, op: arith_.SelectOp) -> Interval:
        condition, first, second = op.operands
        if self._choices >= _CHOICES:
            return self.of(first).join(self.of(second))
        chosen = self.assuming(condition, True).of(first)
        return chosen.join(self.assuming(condition, False).of(second))

    def _implied(self, condition: SSAValue, holds: bool) -> Iterator[tuple[SSAValue, Interval]]:
        """Yield the bounds of values that a condition implies."""
        owner = condition.owner
        match owner:
            case arith.AndIOp() if holds:
                yield from self._implied(owner.lhs, True)
                yield from self._implied(owner.rhs, True)
            case arith.OrIOp() if not holds:
                yield from self._implied(owner.lhs, False)
                yield from self._implied(owner.rhs, False)
            case arith_.CmpiOp():
                name = _INTEGER_PREDICATES[owner.predicate.value.data]
                yield from self._compared(owner, name, holds)
            case arith_.CmpfOp():
                name = _FLOAT_PREDICATES[owner.predicate.value.data]
                if name is not None:
                    yield from self._compared(owner, name, holds)
            case _:
                pass

    def _compared(
        self, op: arith_.CmpiOp | arith_.CmpfOp, name: str, holds: bool
    ) -> Iterator[tuple[SSAValue, Interval]]:
        is_float = isinstance(op, arith_.CmpfOp)
        kind, relation = name[:-2], name[-2:]
        # An ordered comparison that holds, or an unordered one that does not, excludes nan.
        nan = is_float and (kind == "u") == holds
        if not holds:
            relation = _OPPOSITE[relation]
        step = 0 if is_float else 1
        lhs, rhs = op.lhs, op.rhs
        first, second = self.of(lhs), self.of(rhs)
        if not is_float and kind == "u":
            # Unsigned and signed comparison agree if the greater value is non-negative.
            if relation in ("lt", "le") and second.low >= 0:
                yield lhs, Interval(0, second.high - (relation == "lt"))
            if relation in ("gt", "ge") and first.low >= 0:
                yield rhs, Interval(0, first.high - (relation == "gt"))
            return
        yield lhs, _limit(relation, second, step, nan)
        yield rhs, _limit(_MIRRORED[relation], first, step, nan)


_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_INTEGER_PREDICATES = [
    name if name[-2:] != name else f"s{name}" for name in arith_.CMPI_COMPARISON_OPERATIONS
]
# `false`, `ord`, `uno` and `true` imply no bound.
_FLOAT_PREDICATES = [
    name if len(name) == 3 and name[-2:] in _OPPOSITE else None
    for name in arith_.CMPF_COMPARISON_OPERATIONS
]


def _limit(relation: str, other: Interval, step: int, nan: bool) -> Interval:
    """Return the range of a value that is in a relation to some value of `other`."""
    match relation:
        case "lt":
            return Interval(-math.inf, other.high - step, nan)
        case "le":
            return Interval(-math.inf, other.high, nan)
        case "gt":
            return Interval(other.low + step, math.inf, nan)
        case "ge":
            return Interval(other.low, math.inf, nan)
        case "eq":
            return Interval(other.low, other.high, nan)
        case _:
            return Interval(-math.inf, math.inf, True)


def _constant(op: arith.ConstantOp) -> Interval | None:
    match op.value:
        case IntegerAttr(value=value):
            number = value.data
            bits = _width(op.result.type)
            # A signless attribute may hold the signed or the unsigned value of the same bits.
            number -= (number >> (bits - 1) & 1 and number > 0) << bits
            return Interval(number, number)
        case FloatAttr(value=value):
            number = _rounded(value.data, op.result.type)
            slack = abs(number) * _slack(op.result.type)
            if math.isnan(number) or math.isnan(slack):
                return _REALS
            return Interval(number - slack, number + slack)
        case _:
            return None


def _fitted(found: Interval, whole: Interval) -> Interval:
    """Return the range of a result in a type that wraps around."""
    return found if whole.low <= found.low and found.high <= whole.high else whole


def _rounded(number: float, type_: Attribute) -> float:
    """Round a bound to a float type; rounding is monotone, so bounds stay valid."""
    if isinstance(type_, Float64Type):
        return float(number)
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _slack(type_: Attribute) -> float:
    """Return the relative error of narrow floats, whose bounds are computed in a wider type."""
    return 2.0**-7 if isinstance(type_, AnyFloat) and type_.bitwidth < 32 else 0.0


def _ends(type_: Attribute, a: Interval, b: Interval, combine: Combine) -> Interval:
    """Return the range of an operation monotone in each operand, from its values at the ends."""
    ends = [combine(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    if isinstance(type_, AnyFloat):
        if any(math.isnan(end) for end in ends) or math.inf in map(abs, ends):
            return _REALS
        ends = [_rounded(end, type_) for end in ends]
        wide = max(map(abs, ends)) * _slack(type_)
        return Interval(min(ends) - wide, max(ends) + wide, a.nan or b.nan)
    return Interval(min(ends), max(ends))


def _sum(type_: Attribute, a: Interval, b: Interval) -> Interval:
    return _ends(type_, a, b, lambda x, y: x + y)


def _difference(type_: Attribute, a: Interval, b: Interval) -> Interval:
    return _ends(type_, a, b, lambda x, y: x - y)


def _product(type_: Attribute, a: Interval, b: Interval) -> Interval:
    return _ends(type_, a, b, lambda x, y: x * y)


def _greater(type_: Attribute, a: Interval, b: Interval) -> Interval:
    return Interval(max(a.low, b.low), max(a.high, b.high), a.nan or b.nan)


def _lesser(type_: Attribute, a: Interval, b: Interval) -> Interval:
    return Interval(min(a.low, b.low), min(a.high, b.high), a.nan or b.nan)


def _greater_number(type_: Attribute, a: Interval, b: Interval) -> Interval:
    return _without_nan(a, b, _greater(type_, a, b))


def _lesser_number(type_: Attribute, a: Interval, b: Interval) -> Interval:
    return _without_nan(a, b, _lesser(type_, a, b))


def _without_nan(a: Interval, b: Interval, found: Interval) -> Interval:
    """Return the range of an operation that returns the other operand if one is nan."""
    found = Interval(found.low, found.high)
    if a.nan:
        found = found.join(Interval(b.low, b.high))
    if b.nan:
        found = found.join(Interval(a.low, a.high))
    return Interval(found.low, found.high, a.nan and b.nan)


def _lesser_unsigned(type_: Attribute, a: Interval, b: Interval) -> Interval | None:
    tops = [each.high for each in (a, b) if each.low >= 0]
    if not tops:
        return None
    return Interval(min(a.low, b.low) if len(tops) == 2 else 0, min(tops))


def _both(type_: Attribute, a: Interval, b: Interval) -> Interval | None:
    """Bitwise and: at most any operand that is non-negative."""
    tops = [each.high for each in (a, b) if each.low >= 0]
    return Interval(0, min(tops)) if tops else None


def _remainder(type_: Attribute, a: Interval, b: Interval) -> Interval | None:
    """Remainder of a signed division that truncates towards zero."""
    if b.low <= 0:
        return None
    most = b.high - 1
    return Interval(max(-most, a.low) if a.low < 0 else 0, min(most, max(a.high, 0)))


def _unsigned_remainder(type_: Attribute, a: Interval, b: Interval) -> Interval | None:
    return None if b.low <= 0 else Interval(0, b.high - 1)


def _quotient(type_: Attribute, a: Interval, b: Interval) -> Interval | None:
    """Integer quotient for a positive divisor, with any rounding."""
    if b.low <= 0:
        return None
    low = min(a.low // b.low, a.low // b.high)
    return Interval(low, max(-(-a.high // b.low), -(-a.high // b.high)))


def _unsigned_quotient(type_: Attribute, a: Interval, b: Interval) -> Interval | None:
    return _quotient(type_, a, b) if a.low >= 0 else None


def _same(type_: Attribute, a: Interval) -> Interval:
    return a


def _truncated(type_: Attribute, a: Interval) -> Interval | None:
    whole = all_of(type_)
    return a if a.within(whole.low, whole.high) else None


_READS_UNSIGNED = (arith_.ExtUIOp, arith_.IndexCastUIOp, arith_.UIToFPOp)


def _as_unsigned(a: Interval, type_: Attribute) -> Interval:
    """Return the range of an integer reinterpreted as unsigned."""
    bits = _width(type_)
    return a if a.low >= 0 else Interval(0, (1 << bits) - 1)


def _to_float(type_: Attribute, a: Interval) -> Interval:
    if isinstance(type_, AnyFloat) and type_.bitwidth < 32:
        return _REALS
    return Interval(_rounded(a.low, type_), _rounded(a.high, type_))


def _to_integer(type_: Attribute, a: Interval) -> Interval | None:
    """Conversion towards zero; None if the value may be out of range (any integer may result)."""
    whole = all_of(type_)
    if not a.within(whole.low, whole.high) or not math.isfinite(a.high - a.low):
        return None
    return Interval(math.trunc(a.low), math.trunc(a.high))


def _stepwise(function: Callable[[float], float]) -> Callable[[Attribute, Interval], Interval]:
    def rule(type_: Attribute, a: Interval) -> Interval:
        low, high = (n if math.isinf(n) else function(n) for n in (a.low, a.high))
        return Interval(low, high, a.nan)

    return rule


def _magnitude(type_: Attribute, a: Interval) -> Interval:
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Interval(low, max(abs(a.low), abs(a.high)), a.nan)


_RULES: dict[type[Operation], Callable[..., Any]] = {
    arith.AddiOp: _sum,
    arith.AddfOp: _sum,
    arith.SubiOp: _difference,
    arith.SubfOp: _difference,
    arith.MuliOp: _product,
    arith.MulfOp: _product,
    arith.MaxSIOp: _greater,
    arith.MaximumfOp: _greater,
    arith.MinSIOp: _lesser,
    arith.MinimumfOp: _lesser,
    arith.MaxnumfOp: _greater_number,
    arith.MinnumfOp: _lesser_number,
    arith.MinUIOp: _lesser_unsigned,
    arith.AndIOp: _both,
    arith.RemSIOp: _remainder,
    arith.RemUIOp: _unsigned_remainder,
    arith.DivSIOp: _quotient,
    arith.FloorDivSIOp: _quotient,
    arith.DivUIOp: _unsigned_quotient,
    arith_.IndexCastOp: _same,
    arith_.IndexCastUIOp: _same,
    arith_.ExtSIOp: _same,
    arith_.ExtUIOp: _same,
    arith_.TruncIOp: _truncated,
    arith.ExtFOp: _same,
    arith_.SIToFPOp: _to_float,
    arith_.UIToFPOp: _to_float,
    arith_.FPToSIOp: _to_integer,
    math_dialect.FloorOp: _stepwise(math.floor),
    math_dialect.CeilOp: _stepwise(math.ceil),
    math_dialect.TruncOp: _stepwise(math.trunc),
    math_dialect.RoundEvenOp: _stepwise(round),
    math_dialect.AbsFOp: _magnitude,
}
