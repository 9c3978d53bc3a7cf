"""Splitting off the iterations of a loop in which a tile sticks out of its domain.

    loop.for %i = 0 to 8 {                          loop.for %i = 0 to 7 {
      loop.for %j = 0 to 14 unrolled {                loop.for %j = 0 to 14 unrolled {
        loop.guard ([%i * 14 + %j] in 100) {    ->      ...
          ...                                       loop.for %i = 0 to 1 {
                                                      loop.for %j = 0 to 14 unrolled {
                                                        loop.guard ([%j + 98] in 100) {
                                                          ...

A parallel loop stays one loop, whose body is written twice under a guard on its variable, so
that no thread waits between the parts.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from tcopt.dialects import loop
from tcopt.passes.loop.indexing import Knowledge
from tcopt.passes.loop.substitution import substitute_values
from tcopt.support.affine import Dim, FloorDiv, LinearSum, linear_sum, sum_range

_TILE_KINDS = (loop.LoopKind.UNROLLED, loop.LoopKind.VECTORIZED)
_SPLIT_KINDS = (loop.LoopKind.SERIAL, loop.LoopKind.PARALLEL)


def split_tails(block: Block, known: Knowledge) -> bool:
    """Split every loop that has a tail; guards are not simplified yet. Whether any was."""
    changed = False
    for op in tuple(block.ops):
        match op:
            case loop.ForOp():
                known.enter_loop(op)
                full = _full_iterations(op, known) if op.loop_kind in _SPLIT_KINDS else 0
                if full:
                    changed = True
                    if op.loop_kind is loop.LoopKind.PARALLEL:
                        _split_body(op, full)
                    else:
                        tail = _split_loop(op, full, known)
                        split_tails(tail.body.block, known)
                changed |= split_tails(op.body.block, known)
            case loop.GuardOp():
                with known.inside_guard(op.map.data.results, op.indices, op.condition_extents):
                    changed |= split_tails(op.body.block, known)
            case _:
                pass
    return changed


def _full_iterations(op: loop.ForOp, known: Knowledge) -> int:
    """How many first iterations have whole tiles; 0 when there is nothing to split."""
    inner: dict[SSAValue, loop.ForOp] = {}
    for nested in op.body.walk():
        if isinstance(nested, loop.ForOp):
            known.enter_loop(nested)
            inner[nested.induction_variable] = nested
    full = op.trip_count
    for guard in op.body.walk():
        if isinstance(guard, loop.GuardOp):
            for total, extent in _conditions(guard, known):
                count = _whole_tiles(total, extent, guard, op, inner, known)
                full = min(full, count if count is not None else full)
    return full if 0 < full < op.trip_count else 0


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
) -> int | None:
    """The number of first iterations for which a condition on a tile always holds.

    None when the condition is about something else than this loop and tiles in it.
    """
    factor, repeated, has_tile = 0, 1, False
    rest: list[tuple[Dim, int]] = []
    for atom, coefficient in total.terms:
        if isinstance(atom, FloorDiv) and _is_variable(atom.operand, guard, op):
            # The outer one of loops that were fused.
            factor, repeated = coefficient, atom.divisor
            continue
        if not isinstance(atom, Dim):
            return None
        value = guard.indices[atom.position]
        if value is op.induction_variable:
            factor = coefficient
            continue
        if value not in inner:
            return None
        has_tile |= inner[value].loop_kind in _TILE_KINDS
        rest.append((atom, coefficient))
    if factor <= 0 or not has_tile:
        return None
    ranges = known.ranges_of(guard.indices)
    low, high = sum_range(LinearSum(tuple(rest), total.constant), ranges)
    return None if low < 0 else max((extent - 1 - high) // factor + 1, 0) * repeated


def _is_variable(total: LinearSum, guard: loop.GuardOp, op: loop.ForOp) -> bool:
    """Whether a sum is a loop's variable as it is."""
    if total.constant or len(total.terms) != 1:
        return False
    ((atom, coefficient),) = total.terms
    return (
        isinstance(atom, Dim)
        and coefficient == 1
        and guard.indices[atom.position] is op.induction_variable
    )


def _split_loop(op: loop.ForOp, full: int, known: Knowledge) -> loop.ForOp:
    """Shorten a loop and put the loop over its last iterations behind it."""
    tail = op.clone()
    tail.extent = IntegerAttr(op.trip_count - full, i64)
    op.extent = IntegerAttr(full, i64)
    Rewriter.insert_op(tail, InsertPoint.after(op))
    known.enter_loop(op)
    variable = tail.induction_variable
    known.enter_loop(tail)
    shifted = AffineDimExpr(0) + AffineConstantExpr(full)
    substitute_values(tail.body.block, {variable: (shifted, [variable])}, known)
    return tail


def _split_body(op: loop.ForOp, full: int) -> None:
    """Write the body twice, for the first iterations and for the rest."""
    variable = op.induction_variable
    inner = op
    while (nested := _only_parallel_loop(inner)) is not None:
        inner = nested
    block = inner.body.block
    first = Block()
    for each in tuple(block.ops):
        each.detach()
        first.add_op(each)
    main = Region(first)
    rest = main.clone()
    after = AffineDimExpr(0) - AffineConstantExpr(full)
    block.add_op(loop.GuardOp(AffineMap(1, 0, (AffineDimExpr(0),)), [variable], [full], main))
    block.add_op(loop.GuardOp(AffineMap(1, 0, (after,)), [variable], [op.trip_count - full], rest))


def _only_parallel_loop(op: loop.ForOp) -> loop.ForOp | None:
    inner = op.body.block.first_op
    if isinstance(inner, loop.ForOp) and inner.next_op is None:
        return inner if inner.loop_kind is loop.LoopKind.PARALLEL else None
    return None
