"""Splitting off the iterations of a loop in which a tile exceeds its domain.

    loop.for %i = 0 to 8 {                          loop.for %i = 0 to 7 {
      loop.for %j = 0 to 14 unrolled {                loop.for %j = 0 to 14 unrolled {
        loop.guard ([%i * 14 + %j] in 100) {    ->      ...
          ...                                       loop.for %i = 0 to 1 {
                                                      loop.for %j = 0 to 14 unrolled {
                                                        loop.guard ([%j + 98] in 100) {
                                                          ...

A parallel loop remains one loop, with two copies of its body under guards on its variable, so that
no thread waits between the parts. If loops were fused, the variable of each is a digit of the fused
variable, and the guard is on that digit:

    loop.for %bi = 0 to 48 parallel {               loop.for %bi = 0 to 48 parallel {
      loop.for %j = 0 to 14 unrolled {                loop.guard ([%bi mod 8] in 7) {
        loop.guard ([%bi mod 8 * 14 + %j]     ->        ...
            in 100) {                                 }
          ...                                         loop.guard ([%bi mod 8 - 7] in 1) {
                                                        ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tcopt.dialects import loop
from tcopt.passes.loop.analysis.indexing import Knowledge
from tcopt.passes.loop.edits.ranges import split_off
from tcopt.passes.loop.edits.substitution import substitute_values
from tcopt.support.arithmetic.affine import Atom, Dim, LinearSum, linear_sum, sum_range
from tcopt.support.arithmetic.digits import Digit, digit_of
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.ir.quick_ir import ops_with_regions

_TILE_KINDS = (loop.LoopKind.UNROLLED, loop.LoopKind.VECTORIZED)
_VARIABLE = LinearSum(((Dim(0), 1),), 0)
_SPLIT_KINDS = (loop.LoopKind.SERIAL, loop.LoopKind.PARALLEL)


def _replaced(digit: Digit, value: int) -> AffineExpr:
    """Return dimension 0 with one digit replaced by a constant."""
    expr = AffineConstantExpr(value * digit.lower) + AffineDimExpr(0) % digit.lower
    if digit.leading:
        return expr
    higher = digit.lower * digit.extent
    return expr + AffineDimExpr(0) // higher * higher


def split_tails(block: Block, known: Knowledge) -> bool:
    """Split every loop that has a tail, without simplifying guards; return whether any did."""
    changed = False
    for op in tuple(block.ops):
        match op:
            case loop.ForOp():
                known.enter_loop(op)
                if op.loop_kind is loop.LoopKind.PARALLEL:
                    changed |= _split_body(op, op.body.block, set(), known)
                elif op.loop_kind in _SPLIT_KINDS:
                    whole = _whole_iterations(op, op.body.block, known)
                    # No other loop was fused into it, so it has a single digit.
                    for full in whole.values():
                        changed = True
                        tail = split_off(op, full, known)
                        split_tails(tail.body.block, known)
                changed |= split_tails(op.body.block, known)
            case loop.GuardOp():
                with known.inside_guard(op.map.data.results, op.indices, op.condition_extents):
                    changed |= split_tails(op.body.block, known)
            case _:
                pass
    return changed


def _whole_iterations(op: loop.ForOp, body: Block, known: Knowledge) -> dict[Digit, int]:
    """Return the number of leading values with whole tiles of each digit that has a tail."""
    inner: dict[SSAValue, loop.ForOp] = {}
    guards: list[loop.GuardOp] = []
    for nested in ops_with_regions(body):
        if isinstance(nested, loop.ForOp):
            known.enter_loop(nested)
            inner[nested.induction_variable] = nested
        elif isinstance(nested, loop.GuardOp):
            guards.append(nested)
    whole: dict[Digit, int] = {}
    for guard in guards:
        for total, extent in _conditions(guard, known):
            found = _whole_tiles(total, extent, guard, op, inner, known)
            if found is not None:
                digit, count = found
                whole[digit] = min(whole.get(digit, digit.extent), count)
    return {d: n for d, n in whole.items() if 0 < n < d.extent}


def _conditions(guard: loop.GuardOp, known: Knowledge) -> Iterator[tuple[LinearSum, int]]:
    ranges = known.ranges_of(guard.indices)
    for expr, extent in zip(guard.map.data.results, guard.condition_extents, strict=True):
        yield linear_sum(expr, ranges), extent


def _whole_tiles(
    total: LinearSum,
    extent: int,
    guard: loop.GuardOp,
    op: loop.ForOp,
    inner: dict[SSAValue, loop.ForOp],
    known: Knowledge,
) -> tuple[Digit, int] | None:
    """Return the digit of a loop's variable that a condition on a tile depends on, and the number
    of its leading values for which the condition always holds.

    None if the condition depends on anything other than one digit and tiles in the loop.
    """
    digit, factor, has_tile = None, 0, False
    ranges = known.ranges_of(guard.indices)
    rest: list[tuple[Dim, int]] = []
    for atom, coefficient in total.terms:
        found = _digit_of(atom, guard, op, ranges)
        if found is not None:
            if digit is not None:
                return None
            digit, factor = found, coefficient
            continue
        if not isinstance(atom, Dim):
            return None
        value = guard.indices[atom.position]
        if value in inner:
            has_tile |= inner[value].loop_kind in _TILE_KINDS
        elif not _is_bound(value):
            return None
        rest.append((atom, coefficient))
    if digit is None or factor <= 0 or not has_tile:
        return None
    low, high = sum_range(LinearSum(tuple(rest), total.constant), ranges)
    return None if low < 0 else (digit, max((extent - 1 - high) // factor + 1, 0))


def _is_bound(value: SSAValue) -> bool:
    """Whether a value is the index of a GPU thread or block, whose whole range is considered."""
    around = loop.loop_of(value)
    return around is not None and around.axis is not None


def _digit_of(
    atom: Atom, guard: loop.GuardOp, op: loop.ForOp, ranges: Sequence[Range]
) -> Digit | None:
    """Return a term as a digit of a loop's variable, or None."""
    digit = digit_of(atom, ranges)
    if digit.dim is None or guard.indices[digit.dim] is not op.induction_variable:
        return None
    # The extent is equal for all guards, whatever an enclosing guard says about the variable.
    extent = -(-op.trip_count // digit.lower) if digit.leading else digit.extent
    return Digit(_VARIABLE, digit.lower, extent, digit.leading)


def _split_body(op: loop.ForOp, body: Block, done: set[Digit], known: Knowledge) -> bool:
    """Copy a parallel loop's body for each combination of whole tiles and tails of its digits.

    Args:
        body: the part of the body that is still to be split.
        done: digits by which it was already split.
    Returns:
        Whether the body was copied.
    """
    whole = _whole_iterations(op, body, known)
    digit = next((digit for digit in whole if digit not in done), None)
    if digit is None:
        return False
    full, count = whole[digit], digit.extent
    variable = op.induction_variable
    block = body
    while (nested := _only_parallel_loop(block)) is not None:
        block = nested.body.block
    first = Block()
    for each in tuple(block.ops):
        each.detach()
        first.add_op(each)
    main = Region(first)
    rest = main.clone()
    if count - full == 1:
        substitute_values(rest.block, {variable: (_replaced(digit, full), [variable])}, known)
    parts = ((0, full, main), (full, count - full, rest))
    for start, size, part in parts:
        if digit.leading:
            expr, size = AffineDimExpr(0) - start * digit.lower, size * digit.lower
            size = min(size, op.trip_count - start * digit.lower)
        else:
            expr = AffineDimExpr(0) // digit.lower % digit.extent - start
        block.add_op(loop.GuardOp(AffineMap(1, 0, (expr,)), [variable], [size], part))
        _split_body(op, part.block, {*done, digit}, known)
    return True


def _only_parallel_loop(block: Block) -> loop.ForOp | None:
    inner = block.first_op
    if isinstance(inner, loop.ForOp) and inner.next_op is None:
        return inner if inner.loop_kind is loop.LoopKind.PARALLEL else None
    return None
