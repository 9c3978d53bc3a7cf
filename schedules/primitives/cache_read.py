"""cache_read: a block reads a copy of a buffer in another memory."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.loop import AllocOp, BlockOp, Scope
from tcopt.schedules.analysis.regions import box_under, reads_of
from tcopt.schedules.dependences.order import check_passed
from tcopt.schedules.edits.copies import copy_nest, redirect
from tcopt.schedules.edits.nest import alloc_like
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    alloc_of,
    ancestor_in,
    buffers_read,
    buffers_written,
    meeting_block,
    precedes,
    value_label,
)

_NAME = "cache_read"


def cache_read(state: State, block: BlockOp, buffer: int | str, scope: Scope) -> BlockOp:
    """Copy what `block` reads of a buffer to a new one, which it reads instead.

        loop.for %i = 0 to 64 {
          loop.block "double" (%vi: spatial 64 = %i) {...}     // reads %x

    becomes, for `cache_read(double, "x", "shared")`,

        %x_shared = loop.alloc shared : memref<64xf32>
        loop.for %d0 = 0 to 64 {
          loop.block "x_shared" (%vd0: spatial 64 = %d0) {...}   // copies %x to %x_shared
        }
        loop.for %i = 0 to 64 {
          loop.block "double" (%vi: spatial 64 = %i) {...}     // reads %x_shared

    `compute_at` moves the copy to where the data is used.

    Args:
        block: the reader.
        buffer: the name of a buffer it reads, or its number in the order of its reads.
        scope: the memory of the copy.
    Returns:
        The copying block, `<buffer>_<scope>`.
    Raises:
        ScheduleError: the block does not read the buffer, or writes it too.
    """
    source = _source(block, buffer)
    if source in buffers_written(block):
        raise illegal(_NAME, "buffer", f"the block writes {value_label(source)} too", op=block)
    writers = [w for w in state.writers(source) if precedes(w, block)]
    home = alloc_of(source)
    body = meeting_block(block, writers if home is None else [*writers, home], state.func)
    holder = ancestor_in(body, block)
    check_passed(state.known, _NAME, block, [source], [holder], "buffer")
    box = box_under([(a, holder) for a in reads_of(block, source)], source)
    type_ = source.type
    assert isa(type_, MemRefType)
    alloc = AllocOp(type_, scope)
    base = f"{source.name_hint or block.block_name.data}_{scope.value}"
    alloc.result.name_hint = base
    redirect(block, source, alloc.result)
    copy, nest = copy_nest(state.fresh_name(base), source, alloc.result, box, block)
    body.insert_op_before(nest, holder)
    state.add_block(copy)
    alloc_like(state, alloc, [copy, block])
    return copy


def _source(block: BlockOp, buffer: int | str) -> SSAValue:
    found = buffers_read(block)
    names = [value.name_hint for value in found]
    if isinstance(buffer, str):
        if names.count(buffer) == 1:
            return found[names.index(buffer)]
    elif 0 <= buffer < len(found):
        return found[buffer]
    known = ", ".join(f"{i} %{n}" for i, n in enumerate(names))
    raise illegal(
        _NAME, "buffer", f"the block reads no buffer {buffer!r}; it reads {known}", op=block
    )
