"""Do different loop iterations touch different points?

A binding such as `%jo * 16 + %ji` is a number in mixed radix whose digits are loop variables,
or parts of one: `%f floordiv 8` and `%f mod 8` are the two digits of `%f`. Bindings tell
iterations apart when no digit overlaps the next, and the digits of a loop give back the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tcopt.dialects.loop import BlockOp, ForOp
from tcopt.dialects.loop.analysis import value_ranges
from tcopt.schedules.state import loops_of
from tcopt.support.affine import (
    Atom,
    Dim,
    FloorDiv,
    LinearSum,
    Mod,
    Range,
    linear_sum,
    sum_range,
    to_expr,
)


@dataclass(frozen=True)
class _Digit:
    """`(source floordiv lower) mod extent`, with the factor it has in the binding."""

    source: LinearSum
    lower: int
    extent: int
    scale: int


_Guards = Sequence[tuple[LinearSum, int]]
"""Sums that are known to stay below an extent."""


def determines(
    exprs: Sequence[AffineExpr], ranges: Sequence[Range], wanted: Collection[int]
) -> bool:
    """Whether the values of `exprs` tell those of all dimensions in `wanted`.

    A dimension with a single possible value is always told. False when it cannot be shown.
    """
    needed = {d for d in wanted if ranges[d][0] != ranges[d][1]}
    return needed <= _known_dims([linear_sum(expr, ranges) for expr in exprs], ranges, ())


def separates(block: BlockOp, positions: Sequence[int], loop: ForOp) -> bool:
    """Whether iterations of `loop` bind the variables at `positions` to different points,
    whatever the loops inside it do, as the loops around it stand still."""
    if loop.trip_count <= 1:
        return True
    return loop.induction_variable in _known_inside(block, positions, loop)


def runs_once(block: BlockOp, loop: ForOp) -> bool:
    """Whether each point that `block` runs for, as the loops around `loop` stand still, comes
    from one iteration of `loop` and those inside it."""
    known = _known_inside(block, range(len(block.iter_vars)), loop)
    around = loops_of(block)
    inside = around[around.index(loop) :]
    return all(o.trip_count <= 1 or o.induction_variable in known for o in inside)


def _known_inside(block: BlockOp, positions: Sequence[int], loop: ForOp) -> set[SSAValue]:
    """Variables of loops at or inside `loop` that follow from those at `positions`."""
    values = list(block.operands_)
    ranges = value_ranges(values)
    inside = {p for p, v in enumerate(values) if loop.is_ancestor(v.owner)}
    sums: list[LinearSum] = []
    guards: list[tuple[LinearSum, int]] = []
    for position, expr in enumerate(block.bindings.data.results):
        total = linear_sum(expr, ranges)
        # What stands still adds a constant to every point.
        moving = tuple(t for t in total.terms if not inside.isdisjoint(_dims(t[0])))
        if block.iter_vars[position].first_use is None and moving == total.terms:
            guards.append((LinearSum(moving, 0), block.domain[position] - total.constant))
        if position in positions:
            sums.append(LinearSum(moving, 0))
    return {values[d] for d in _known_dims(sums, ranges, guards) & inside}


def _dims(atom: Atom) -> set[int]:
    if isinstance(atom, Dim):
        return {atom.position}
    return set[int]().union(*(_dims(a) for a, _ in atom.operand.terms))


def _known_dims(sums: Sequence[LinearSum], ranges: Sequence[Range], guards: _Guards) -> set[int]:
    """Dimensions whose value follows from the values of all `sums`."""
    by_source: dict[LinearSum, list[_Digit]] = {}
    limits = dict(guards)
    for total in sums:
        for digit in _digits(total, ranges, guards) or ():
            whole = _whole(digit, ranges)
            by_source.setdefault(whole.source, []).append(whole)
    known: set[int] = set()
    for source, digits in by_source.items():
        others = [d for o, found in by_source.items() if o != source for d in found]
        digits = [*digits, *(d for d in others if _is_digit_of(d, source))]
        low, high = sum_range(source, ranges)
        if not _covers(digits, (low, min(high, limits.get(source, high + 1) - 1))):
            continue
        if len(source.terms) == 1 and isinstance(dim := source.terms[0][0], Dim):
            known.add(dim.position)
        else:
            known |= _known_dims([source], ranges, ())
    return known


def _digits(total: LinearSum, ranges: Sequence[Range], guards: _Guards) -> list[_Digit] | None:
    """The digits of a sum, least significant first; None where two overlap."""
    terms = dict(total.terms)
    digits: list[_Digit] = []
    for guard, extent in guards:
        factors = {terms.get(atom, 0) / factor for atom, factor in guard.terms}
        if len(factors) == 1 and (scale := factors.pop()) and scale == int(scale):
            digits.append(_Digit(guard, 1, extent, int(scale)))
            for atom, _ in guard.terms:
                del terms[atom]
    digits += [_digit(atom, factor, ranges) for atom, factor in terms.items()]
    digits.sort(key=lambda d: abs(d.scale))
    reach = 0
    for digit in digits:
        if abs(digit.scale) <= reach:
            return None
        reach += abs(digit.scale) * (digit.extent - 1)
    return digits


def _digit(atom: Atom, factor: int, ranges: Sequence[Range]) -> _Digit:
    low, high = sum_range(LinearSum(((atom, 1),), 0), ranges)
    match atom:
        case Dim():
            return _Digit(LinearSum(((atom, 1),), 0), 1, high - low + 1, factor)
        case FloorDiv():
            return _Digit(atom.operand, atom.divisor, high - min(low, 0) + 1, factor)
        case Mod(LinearSum(terms=((FloorDiv() as inner, 1),), constant=0)):
            return _Digit(inner.operand, inner.divisor, atom.divisor, factor)
        case Mod():
            return _Digit(atom.operand, 1, atom.divisor, factor)


def _whole(digit: _Digit, ranges: Sequence[Range]) -> _Digit:
    """The same digit of what its source is a part of: `%a * 16 + %b floordiv 16` is
    `(%a * 256 + %b) floordiv 16`."""
    parts = [(atom, factor) for atom, factor in digit.source.terms if isinstance(atom, FloorDiv)]
    if len(parts) != 1 or len(digit.source.terms) == 1:
        return digit
    (part, factor) = parts[0]
    if factor != 1:
        return digit
    rest = LinearSum(tuple(t for t in digit.source.terms if t[0] != part), digit.source.constant)
    expr = to_expr(rest) * part.divisor + to_expr(part.operand)
    source = linear_sum(expr, ranges)
    return _Digit(source, digit.lower * part.divisor, digit.extent, digit.scale)


def _is_digit_of(digit: _Digit, source: LinearSum) -> bool:
    """Whether a digit of another source is one of this too: they differ by multiples of what
    the digit leaves out."""
    place = digit.lower * digit.extent
    factors = dict(source.terms)
    for atom, factor in digit.source.terms:
        factors[atom] = factors.get(atom, 0) - factor
    apart = (*factors.values(), source.constant - digit.source.constant)
    return all(difference % place == 0 for difference in apart)


def _covers(digits: Sequence[_Digit], range_: Range) -> bool:
    """Whether the digits together give back a source in `range_`."""
    place = 1
    for digit in sorted(digits, key=lambda d: (d.lower, d.extent)):
        if digit.lower > place:
            return False
        place = max(place, digit.lower * digit.extent)
    return range_[0] >= 0 and place > range_[1]
