"""cache_write: make a block write a buffer in another memory scope, which is copied afterwards."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr
from xdsl.utils.hints import isa

from tcopt.dialects.loop import AllocOp, BlockOp, IntrinOp, Scope
from tcopt.dialects.loop.analysis import Box, BoxSide
from tcopt.dialects.size import extents_of, sized_memref
from tcopt.schedules.analysis.regions import box_under, variable_at, variables_of, writes_of
from tcopt.schedules.dependences.order import check_runs, check_single
from tcopt.schedules.edits.copies import copy_nest, redirect, shift
from tcopt.schedules.edits.nest import alloc_like, check_movable
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    alloc_of,
    ancestor_in,
    meeting_block,
    value_label,
    written_buffer,
)
from tcopt.support.arithmetic.sizes import Extent, upper_bound


def cache_write(state: State, block: BlockOp, scope: Scope) -> BlockOp:
    """Make `block` compute into a new buffer, which a new block copies to the original.

        loop.for %j = 0 to 64 {
          loop.for %k = 0 to 32 {
            loop.block "mm" (%vj: spatial 64 = %j, %vk: reduce 32 = %k) {...}   // writes %y

    becomes, for `cache_write(mm, "register")`,

        %y_register = loop.alloc register : memref<64xf32>
        loop.for %j = 0 to 64 {
          loop.for %k = 0 to 32 {
            loop.block "mm" (%vj: spatial 64 = %j, %vk: reduce 32 = %k) {...}  // %y_register
        ...
        loop.for %d0 = 0 to 64 {
          loop.block "mm_store" (%vd0: spatial 64 = %d0) {...}                    // copies it to %y

    If the block writes a part of the buffer at a constant offset, the new buffer has the size of
    the part.

    Args:
        block: the only writer of one buffer, except for blocks that write other parts of it.
        scope: memory scope of the new buffer.
    Returns:
        The copy block, `<block>_store`.
    Raises:
        ScheduleError: the block does not write exactly one buffer, or its reduction was decomposed.
    """
    buffer = written_buffer(block, "cache_write")
    if block.is_reduction and block.init is None and _others(state, block, buffer):
        raise illegal(
            "cache_write",
            "block",
            f"another block starts its reduction in {value_label(buffer)}",
            op=block,
            hint="cache_write comes before decompose_reduction",
        )
    check_runs("cache_write", block)
    check_single(state.known, "cache_write", block, buffer, any_order=False)
    readers = [r for r in state.readers(buffer) if r is not block]
    home = alloc_of(buffer)
    body = meeting_block(block, readers if home is None else [*readers, home], state.func)
    holder = ancestor_in(body, block)
    box = box_under([(a, holder) for a in writes_of(block, buffer)], buffer)
    _check_filled(state, block, buffer, box)
    for access in writes_of(block, buffer):
        moving = zip(block.iter_vars, block.domain, strict=True)
        used = {v for v, extent in moving if extent > 1 and v in access.operands}
        if len(used) != len(variables_of(access, block)):
            raise illegal(
                "cache_write", "block", f"its store into {value_label(buffer)} has gaps", op=block
            )
    type_ = buffer.type
    assert isa(type_, MemRefType)
    low = _offsets(block, buffer, box)
    if low is not None:
        extents = _part_extents(block, buffer, box)
        type_ = sized_memref(extents, type_.get_element_type(), type_.memory_space)
        origin = [BoxSide(AffineConstantExpr(0), part.extent) for part in box.dims]
        box = Box((), tuple(origin))
    alloc = AllocOp(type_, scope)
    alloc.result.name_hint = f"{buffer.name_hint or block.block_name.data}_{scope.value}"
    redirect(block, buffer, alloc.result)
    if (reason := state.known.ordered.pop(buffer, None)) is not None:
        state.known.ordered[alloc.result] = reason
    if low is not None:
        shift(block, alloc.result, low)
    name = state.fresh_name(f"{block.block_name.data}_store")
    copy, nest = copy_nest(name, alloc.result, buffer, box, block, low)
    body.insert_op_after(nest, holder)
    state.add_block(copy)
    alloc_like(state, alloc, [block, copy])
    return copy


def _part_extents(block: BlockOp, buffer: SSAValue, box: Box) -> list[Extent]:
    """Return the live extents of the block's part of a buffer."""
    found: list[Extent] = []
    for part, extent in zip(box.dims, extents_of(buffer.type), strict=True):
        if part.extent == upper_bound(extent):
            found.append(extent)
        elif isinstance(extent, int):
            found.append(part.extent)
        else:
            reason = f"it writes a part of {value_label(buffer)} along a size"
            raise illegal("cache_write", "block", reason, op=block)
    return found


def _check_filled(state: State, block: BlockOp, buffer: SSAValue, box: Box) -> None:
    """Check that the block writes its part completely, if the buffer holds other data."""
    if alloc_of(buffer) is not None and not _others(state, block, buffer):
        return
    label, shape = value_label(buffer), extents_of(buffer.type)
    for access in writes_of(block, buffer):
        found = [variable_at(access, dim, block) for dim in range(len(shape))]
        known = variables_of(access, block)
        for dim, variable in enumerate(found):
            if variable is None:
                is_full = box.dims[dim].extent <= 1
            else:
                position, offset = variable
                is_moving = block.domain[position] > 1 and known[position] != (dim, offset)
                whole = offset == 0 and block.live_domain[position] == shape[dim]
                is_known = isinstance(box.dims[dim].base, AffineConstantExpr)
                is_full = not is_moving and (whole or is_known)
            if not is_full:
                reason = f"its store into {label} has gaps along dimension {dim}"
                raise illegal("cache_write", "block", reason, op=block)
    check_movable("cache_write", block)


def _offsets(block: BlockOp, buffer: SSAValue, box: Box) -> list[int] | None:
    """Return the offset of the block's part of the buffer, if it is constant and not 0."""
    low = [d.base.value for d in box.dims if isinstance(d.base, AffineConstantExpr)]
    in_tiles = any(isinstance(op, IntrinOp) and buffer in op.operands for op in block.body.walk())
    return low if len(low) == len(box.dims) and any(low) and not in_tiles else None


def _others(state: State, block: BlockOp, buffer: SSAValue) -> list[BlockOp]:
    return [w for w in state.writers(buffer) if w is not block]
