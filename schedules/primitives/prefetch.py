"""prefetch: prefetch the elements that a block will read from a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.utils.hints import isa

from tcopt.dialects.loop import BlockOp, ForOp, GuardOp, PrefetchOp
from tcopt.dialects.loop.analysis import Box, binding_values, buffer_shape, over, value_ranges
from tcopt.schedules.analysis.regions import box_under, reads_of
from tcopt.schedules.dependences.order import check_runs
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    alloc_of,
    ancestor_in,
    buffers_read,
    loops_of,
    value_label,
)
from tcopt.support.arithmetic.affine import simplify, substitute
from tcopt.support.machines.alignment import ALIGNMENT
from tcopt.support.syntax.access_syntax import unique_operands

_NAME = "prefetch"
_LOCALITY = 2
"""Prefetch into L2: L1 holds the current working set."""


def prefetch(state: State, block: BlockOp, buffer: int, ahead: ForOp, at: ForOp) -> None:
    """Prefetch the elements that `block` reads in the next iteration of `ahead`.

    The prefetches are distributed over the iterations of the loops inside of `ahead`, up to `at`.
    If there are more iterations than cache lines, the last ones are used, because earlier
    prefetches could be evicted; the first ones are used if a size limits the iterations.

        loop.for %p = 0 to 8 {
          loop.for %i = 0 to 4 {
            loop.for %k = 0 to 64 {
              loop.block "mm" (...) {...}    // reads %w[%p, %k, 0 to 16]

    becomes, for `prefetch(mm, 1, p, k)`,

        loop.for %p = 0 to 8 {
          loop.for %i = 0 to 4 {
            loop.for %k = 0 to 64 {
              loop.guard ([%i * 64 + %k - 192] in 64) {
                loop.prefetch %w[%p + 1, 0, %i * 1024 + %k * 16 - 3072] locality 2
              }
              loop.block "mm" (...) {...}

    Args:
        block: the reader.
        buffer: position of an argument of the function in the order of the block's reads; the
            elements read in one iteration of `ahead` must be contiguous in memory.
        ahead: a loop around `at`.
        at: a loop around the block.
    Raises:
        ScheduleError: the block reads no such buffer, the loops are not nested around the block as
            required, or the elements are not contiguous.
    """
    around = loops_of(block)
    if ahead not in around or at not in around or around.index(ahead) >= around.index(at):
        raise illegal(_NAME, "at", "it is not around the block and inside of ahead", op=at)
    read = buffers_read(block)
    if not 0 <= buffer < len(read):
        raise illegal(_NAME, "buffer", f"the block reads {len(read)} buffers", op=block)
    source = read[buffer]
    if alloc_of(source) is not None:
        reason = f"{value_label(source)} is computed in the function, so it needs no prefetch"
        raise illegal(_NAME, "buffer", reason, op=block)
    check_runs(_NAME, block)
    if not isinstance(_element(source), FixedBitwidthType):
        reason = f"elements of {value_label(source)} have no fixed width"
        raise illegal(_NAME, "buffer", reason, op=block)
    holder = ancestor_in(ahead.body.block, block)
    box = box_under([(access, holder) for access in reads_of(block, source)], source)
    if not _is_dense(box, source):
        reason = f"the parts of {value_label(source)} that are read are not contiguous"
        raise illegal(_NAME, "buffer", reason, op=block)
    inside = around[around.index(ahead) + 1 : around.index(at) + 1]
    ops = _prefetches(source, box, ahead, inside, from_start=_is_limited(block, inside))
    first = at.body.block.first_op
    assert first is not None
    at.body.block.insert_ops_before(ops, first)


def _is_limited(block: BlockOp, loops: Sequence[ForOp]) -> bool:
    """Whether the number of iterations of loops around a block depends on a size."""
    variables = {each.induction_variable for each in loops}
    return any(
        not isinstance(extent, int) and not variables.isdisjoint(binding_values(block, position))
        for position, extent in enumerate(block.live_domain)
    )


def _element(buffer: SSAValue) -> Attribute:
    type_ = buffer.type
    assert isa(type_, MemRefType)
    return type_.get_element_type()


def _is_dense(box: Box, buffer: SSAValue) -> bool:
    """Whether a box is contiguous in memory."""
    extents = [dim.extent for dim in box.dims]
    first = next((i for i, extent in enumerate(extents) if extent > 1), len(extents))
    return extents[first + 1 :] == list(buffer_shape(buffer)[first + 1 :])


def _prefetches(
    buffer: SSAValue, box: Box, ahead: ForOp, inside: Sequence[ForOp], *, from_start: bool
) -> list[Operation]:
    """Return the ops for one iteration of the loops `inside`, which share the lines of the box.

    Args:
        from_start: whether to use the first iterations if there are more than lines.
    """
    element = _element(buffer)
    assert isinstance(element, FixedBitwidthType)
    line = ALIGNMENT * 8 // element.bitwidth
    extents = [dim.extent for dim in box.dims]
    lines, rounds = ceil(prod(extents) / line), prod(each.trip_count for each in inside)
    count = ceil(lines / rounds)
    values: list[SSAValue] = []
    number: AffineExpr = AffineConstantExpr(0)
    for each in inside:
        (position,) = (over(AffineDimExpr(0), [each.induction_variable], values),)
        number = number * each.trip_count + position
    bases = [over(dim.base, box.operands, values) for dim in box.dims]
    later: list[AffineExpr] = [AffineDimExpr(i) for i in range(len(values))]
    if ahead.induction_variable in values:
        position = values.index(ahead.induction_variable)
        later[position] = later[position] + 1
    ranges = value_ranges(values)
    needed = ceil(lines / count)
    if not from_start:
        number = number - (rounds - needed)
    ops: list[Operation] = []
    for part in range(count):
        indices = [substitute(base, later) for base in bases]
        indices[-1] = simplify(indices[-1] + (number * count + part) * line, ranges)
        map, operands = unique_operands(AffineMap(len(values), 0, tuple(indices)), values)
        ops.append(PrefetchOp(buffer, map, operands, _LOCALITY))
    if needed == rounds:
        return ops
    map, operands = unique_operands(AffineMap(len(values), 0, (simplify(number, ranges),)), values)
    return [GuardOp(map, operands, [needed], Region(Block(ops)))]
