"""compute_in_place: make a block overwrite a buffer that it reads."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.loop import AllocOp, BlockOp, LoadOp, StoreOp
from tcopt.dialects.loop.analysis import buffer_shape, value_ranges
from tcopt.dialects.loop.conditions import merge_maps
from tcopt.dialects.loop.dependences import runs_once
from tcopt.schedules.edits.inlining import erase_alloc
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    ancestor_in,
    block_label,
    buffers_read,
    loops_of,
    value_label,
    written_buffer,
)
from tcopt.support.arithmetic.integer_points import determines
from tcopt.support.ir.rewriting import replace

_NAME = "compute_in_place"


def compute_in_place(state: State, block: BlockOp, buffer: int) -> None:
    """Store each result over the element it was computed from, instead of in a separate buffer.

        %s = loop.alloc acc_register : memref<64xi32>
        %t = loop.alloc acc_register : memref<64xi32>
        ...
        loop.block "add" (%vi: spatial 64 = %i) {
          %a = loop.load %s[%vi] : memref<64xi32>
          %b = arith.addi %a, %c3 : i32
          loop.store %b, %t[%vi] : memref<64xi32>

    becomes

        %s = loop.alloc acc_register : memref<64xi32>
        ...
        loop.block "add" (%vi: spatial 64 = %i) {
          %a = loop.load %s[%vi] : memref<64xi32>
          %b = arith.addi %a, %c3 : i32
          loop.store %b, %s[%vi] : memref<64xi32>

    Blocks that read the result read the other buffer instead.

    Args:
        block: a block without a reduction that stores one element for each of its points.
        buffer: position of the overwritten buffer, in the order of the block's reads.
    Raises:
        ScheduleError: a buffer is not an allocation, or they differ in type, memory scope or the
            loop of their allocation; the block reads other elements than it stores, or stores one
            twice; or the old elements are read afterwards.
    """
    own = written_buffer(block, _NAME)
    sources = buffers_read(block)
    if not 0 <= buffer < len(sources):
        reason = f"it reads {len(sources)} buffers, there is no number {buffer}"
        raise illegal(_NAME, "buffer", reason, op=block)
    source = sources[buffer]
    holder = _check_buffers(block, own, source)
    _check_place(block, own, source)
    _check_order(state, block, own, source, holder)
    for op in list(block.body.walk()):
        if isinstance(op, LoadOp) and op.memref is source:
            (store,) = (each for each in block.body.walk() if isinstance(each, StoreOp))
            new = LoadOp(source, store.map.data, store.indices)
            replace(op, new)
    own.replace_all_uses_with(source)
    erase_alloc(own)


def _check_buffers(block: BlockOp, own: SSAValue, source: SSAValue) -> AllocOp:
    """Return the allocation of the source, after checking that it matches that of the result."""
    old, new = source.owner, own.owner
    for alloc, value in ((old, source), (new, own)):
        if not isinstance(alloc, AllocOp):
            reason = f"{value_label(value)} is an argument of the function"
            raise illegal(_NAME, "block", reason, op=block)
    assert isinstance(old, AllocOp) and isinstance(new, AllocOp)
    if own is source:
        raise illegal(_NAME, "buffer", "it is computed in place already", op=block)
    if (own.type, new.scope) != (source.type, old.scope) or new.attributes != old.attributes:
        reason = f"{value_label(own)} and {value_label(source)} differ in type or memory"
        raise illegal(_NAME, "block", reason, op=block)
    if old.parent is not new.parent:
        reason = f"{value_label(own)} and {value_label(source)} are allocated in different loops"
        raise illegal(_NAME, "block", reason, op=block, hint="compute_at comes before")
    return old


def _check_place(block: BlockOp, own: SSAValue, source: SSAValue) -> None:
    """Check that each element is read at the index where it is stored, and computed only once."""
    ops = list(block.body.walk())
    stores = [op for op in ops if isinstance(op, StoreOp)]
    loads = [op for op in ops if isinstance(op, LoadOp) and op.memref in (own, source)]
    for load in loads:
        whole = load.lanes is None and load.default is None and load.memref is source
        if not whole or not _is_same_element(load, stores[0]):
            reason = f"it reads other elements of {value_label(load.memref)} than it stores"
            raise illegal(_NAME, "block", reason, op=block)
    alloc = source.owner
    assert isinstance(alloc, AllocOp)
    inside = [each for each in loops_of(block) if each not in loops_of(alloc)]
    once = not inside or runs_once(block, inside[0])
    if len(stores) != 1 or not once or not _stores_apart(block, stores[0]):
        reason = "it would be computed for some element more than once"
        raise illegal(_NAME, "block", reason, op=block)


def _is_same_element(load: LoadOp, store: StoreOp) -> bool:
    """Whether both have the same indices, except in dimensions with a single element."""
    map, _ = merge_maps([(each.map.data, list(each.indices)) for each in (load, store)])
    rank = len(map.results) // 2
    pairs = zip(map.results[:rank], map.results[rank:], buffer_shape(store.memref), strict=True)
    return all(size == 1 or one == other for one, other, size in pairs)


def _stores_apart(block: BlockOp, store: StoreOp) -> bool:
    """Whether a block stores to a different element for each of its points."""
    places = list(store.indices)
    points = zip(block.iter_vars, block.domain, strict=True)
    return all(extent <= 1 or variable in places for variable, extent in points) and determines(
        store.map.data.results, value_ranges(places), range(len(places))
    )


def _check_order(
    state: State, block: BlockOp, own: SSAValue, source: SSAValue, alloc: AllocOp
) -> None:
    """Check that other uses of the source precede the block, and those of the result follow it."""
    region = alloc.parent
    assert region is not None
    here = ancestor_in(region, block)
    for buffer, first in ((source, True), (own, False)):
        for other in {*state.readers(buffer), *state.writers(buffer)} - {block}:
            there = ancestor_in(region, other)
            if there is here or _is_before(there, here) != first:
                verb = "after" if first else "before"
                reason = f"block {block_label(other)} uses {value_label(buffer)} {verb} it"
                raise illegal(_NAME, "block", reason, op=block)


def _is_before(one: Operation, other: Operation) -> bool:
    return one.is_before_in_block(other)
