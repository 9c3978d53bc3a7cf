"""Check that different loop iterations access different points.

A binding such as `%jo * 16 + %ji` is a mixed-radix number, see `support.digits`. Bindings
distinguish iterations if no digit overlaps the next, and the loop variables can be recovered from
their digits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tcopt.dialects.loop import BlockOp, ForOp
from tcopt.dialects.loop.analysis import value_ranges
from tcopt.schedules.state.state import loops_of
from tcopt.support.arithmetic.affine import (
    Atom,
    Dim,
    FloorDiv,
    LinearSum,
    Range,
    linear_sum,
    sum_range,
    to_expr,
)
from tcopt.support.arithmetic.digits import Digit, digit_of

_Guards = Sequence[tuple[LinearSum, int]]
"""Sums with the extents below which they are known to stay."""


def determines(
    exprs: Sequence[AffineExpr], ranges: Sequence[Range], wanted: Collection[int]
) -> bool:
    """Whether the values of `exprs` determine those of all dimensions in `wanted`.

    A dimension with a single possible value is always determined. False if it cannot be proven.
    """
    needed = {d for d in wanted if ranges[d][0] != ranges[d][1]}
    sums = [linear_sum(expr, ranges) for expr in exprs]
    told = {d for total in sums for d in _told_alone(total, ranges)}
    return needed <= told or needed <= _known_dims(sums, ranges, ())


def _told_alone(total: LinearSum, ranges: Sequence[Range]) -> list[int]:
    """Return all dimensions of a sum that is a mixed-radix number with one digit per dimension."""
    found: list[int] = []
    reach = 0
    for atom, factor in sorted(total.terms, key=lambda term: abs(term[1])):
        if not isinstance(atom, Dim) or abs(factor) <= reach:
            return []
        low, high = ranges[atom.position]
        reach += abs(factor) * (high - low)
        found.append(atom.position)
    return found


def separates(block: BlockOp, positions: Sequence[int], loop: ForOp) -> bool:
    """Whether iterations of `loop` bind the variables at `positions` to different points.

    This must hold for any iterations of the loops inside, with the loops around it fixed.
    """
    if loop.trip_count <= 1:
        return True
    return loop.induction_variable in _known_inside(block, positions, loop)


def runs_once(block: BlockOp, loop: ForOp) -> bool:
    """Whether `block` runs at most once for each point during one execution of `loop`."""
    known = _known_inside(block, range(len(block.iter_vars)), loop)
    around = loops_of(block)
    inside = around[around.index(loop) :]
    return all(o.trip_count <= 1 or o.induction_variable in known for o in inside)


def _known_inside(block: BlockOp, positions: Sequence[int], loop: ForOp) -> set[SSAValue]:
    """Return the variables of loops inside `loop`, or its own, that determine those at
    `positions`."""
    values = list(block.operands_)
    ranges = value_ranges(values)
    inside = {p for p, v in enumerate(values) if loop.is_ancestor(v.owner)}
    sums: list[LinearSum] = []
    guards: list[tuple[LinearSum, int]] = []
    for position, expr in enumerate(block.bindings.data.results):
        total = linear_sum(expr, ranges)
        # Terms of enclosing loops add the same constant to every point.
        moving = tuple(t for t in total.terms if not inside.isdisjoint(_dims(t[0])))
        if block.iter_vars[position].first_use is None and moving == total.terms:
            guards.append((LinearSum(moving, 0), block.domain[position] - total.constant))
        if position in positions:
            sums.append(LinearSum(moving, 0))
    still = set(range(len(values))) - inside
    return {values[d] for d in _known_dims(sums, ranges, guards, still) & inside}


def _dims(atom: Atom) -> set[int]:
    if isinstance(atom, Dim):
        return {atom.position}
    return set[int]().union(*(_dims(a) for a, _ in atom.operand.terms))


def _known_dims(
    sums: Sequence[LinearSum],
    ranges: Sequence[Range],
    guards: _Guards,
    still: Collection[int] = (),
) -> set[int]:
    """Return the dimensions whose values are determined by the values of all `sums`.

    Args:
        still: dimensions whose value is known.
    """
    digits = [
        _whole(digit, ranges) for total in sums for digit in _digits(total, ranges, guards) or ()
    ]
    limits = dict(guards)
    known: set[int] = set()
    for source in _candidates(dict.fromkeys(digit.source for digit in digits)):
        own = [o for d in digits if (o := _as_digit_of(d, source, ranges)) is not None]
        # With the other terms fixed, the source has as many values as the range of its moving
        # terms.
        moving = LinearSum(tuple(t for t in source.terms if not _dims(t[0]) <= {*still}), 0)
        if moving == source:
            low, high = sum_range(source, ranges)
            wanted = (low, min(high, limits.get(source, high + 1) - 1))
        else:
            low, high = sum_range(moving, ranges)
            wanted = (min(sum_range(source, ranges)[0], 0), high - low)
        if not moving.terms or not _covers(own, wanted):
            continue
        if len(moving.terms) == 1 and isinstance(dim := moving.terms[0][0], Dim):
            known.add(dim.position)
        elif sums != [moving]:
            known |= _known_dims([moving], ranges, (), still)
    return known


def _candidates(sources: Iterable[LinearSum]) -> Iterator[LinearSum]:
    """Yield sums that the digits may belong to: their sources, and combinations of two sources.

    For example, `%a * 4 + %b` and `%b * 2 + %c` combine to `%a * 8 + %b * 2 + %c`.
    """
    found = list(sources)
    yield from found
    for low in found:
        for high in found:
            scale = _ratio(low, high)
            atoms = {atom for atom, _ in low.terms}
            missing = tuple((a, f * scale) for a, f in high.terms if a not in atoms)
            if scale and missing and len(missing) < len(high.terms):
                yield LinearSum((*missing, *low.terms), low.constant)


def _ratio(low: LinearSum, high: LinearSum) -> int:
    """Return the factor between the common terms of two sums; 0 if it is not uniform."""
    factors = dict(low.terms)
    ratios = {factors[atom] / factor for atom, factor in high.terms if atom in factors}
    ratio = ratios.pop() if len(ratios) == 1 else 0
    return int(ratio) if ratio >= 1 and ratio == int(ratio) else 0


def _digits(total: LinearSum, ranges: Sequence[Range], guards: _Guards) -> list[Digit] | None:
    """Return the digits of a sum, least significant first; None if two overlap."""
    terms = dict(total.terms)
    places: list[tuple[int, Digit]] = []
    for guard, extent in guards:
        factors = {terms.get(atom, 0) / factor for atom, factor in guard.terms}
        if len(factors) == 1 and (scale := factors.pop()) and scale == int(scale):
            places.append((abs(int(scale)), Digit(guard, 1, extent)))
            for atom, _ in guard.terms:
                del terms[atom]
    places += [(abs(factor), digit_of(atom, ranges)) for atom, factor in terms.items()]
    places.sort(key=lambda place: place[0])
    reach = 0
    for scale, digit in places:
        if scale <= reach:
            return None
        reach += scale * (digit.extent - 1)
    return [digit for _, digit in places]


def _whole(digit: Digit, ranges: Sequence[Range]) -> Digit:
    """Return the same digit with a source without division.

    For example, `%a * 16 + %b floordiv 16` becomes `(%a * 256 + %b) floordiv 16`.
    """
    parts = [(atom, factor) for atom, factor in digit.source.terms if isinstance(atom, FloorDiv)]
    if len(parts) != 1 or len(digit.source.terms) == 1:
        return digit
    (part, factor) = parts[0]
    if factor != 1:
        return digit
    rest = LinearSum(tuple(t for t in digit.source.terms if t[0] != part), digit.source.constant)
    expr = to_expr(rest) * part.divisor + to_expr(part.operand)
    source = linear_sum(expr, ranges)
    return replace(digit, source=source, lower=digit.lower * part.divisor)


def _as_digit_of(digit: Digit, source: LinearSum, ranges: Sequence[Range]) -> Digit | None:
    """Return the digit as a digit of another source; None if it is not one.

    The sources may differ in multiples that the digit ignores, and in terms below it.
    """
    if digit.source == source:
        return digit
    if not (scale := _ratio(source, digit.source)):
        return None
    place = scale * digit.lower * digit.extent
    factors = dict(source.terms)
    for atom, factor in digit.source.terms:
        factors[atom] = factors.get(atom, 0) - scale * factor
    rest = tuple((atom, factor) for atom, factor in factors.items() if factor % place)
    constant = source.constant - scale * digit.source.constant
    low, high = sum_range(LinearSum(rest, constant), ranges)
    if low < 0 or high >= scale:
        return None
    return Digit(source, digit.lower * scale, digit.extent)


def _covers(digits: Sequence[Digit], range_: Range) -> bool:
    """Whether the digits together determine a source in `range_`."""
    place = 1
    for digit in sorted(digits, key=lambda d: (d.lower, d.extent)):
        if digit.lower > place:
            return False
        place = max(place, digit.lower * digit.extent)
    return range_[0] >= 0 and place > range_[1]
