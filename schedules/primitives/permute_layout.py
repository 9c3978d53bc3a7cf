"""permute_layout: permute the dimensions of a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.dialects.loop import BlockOp, LoadOp, StoreOp
from tcopt.dialects.loop.memory import STORAGE_ALIGN
from tcopt.dialects.size import extents_of
from tcopt.schedules.edits.buffers import permute_indices, with_shape
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State, alloc_of, value_label, written_buffer

_NAME = "permute_layout"


def permute_layout(state: State, block: BlockOp, order: Sequence[int]) -> None:
    """Permute the dimensions of the buffer that `block` writes.

        %t = loop.alloc shared : memref<3x64xf32>
        ... loop.store %0, %t[%vi, %vj]
        ... loop.load %t[%vi, %vk]
    ->
        %t = loop.alloc shared : memref<64x3xf32>
        ... loop.store %0, %t[%vj, %vi]
        ... loop.load %t[%vk, %vi]

    for `permute_layout(copy, [1, 0])`. Loops do not change.

    Args:
        block: a block that writes one buffer, which the function allocates.
        order: the old dimension for each new dimension.
    Raises:
        ScheduleError: the buffer is an argument, is accessed by vectors or other ops than loads and
            stores, or the order is not a permutation.
    """
    buffer = written_buffer(block, _NAME)
    alloc, label = alloc_of(buffer), value_label(buffer)
    if alloc is None:
        reason = f"it writes {label}, an argument whose layout is given"
        hint = "cache_write gives it a buffer of its own"
        raise illegal(_NAME, "block", reason, op=block, hint=hint)
    shape = extents_of(buffer.type)
    if sorted(order) != list(range(len(shape))):
        reason = f"{list(order)} is not a permutation of {len(shape)} dimensions"
        raise illegal(_NAME, "order", reason, op=block)
    if STORAGE_ALIGN in alloc.attributes:
        reason, hint = f"rows of {label} are spaced", "storage_align comes after permute_layout"
        raise illegal(_NAME, "block", reason, op=block, hint=hint)
    accesses = dict.fromkeys(use.operation for use in buffer.uses)
    for op in accesses:
        if not isinstance(op, LoadOp | StoreOp) or op.lanes is not None:
            reason = f"{label} is accessed by a {op.name} of several elements"
            raise illegal(_NAME, "block", reason, op=block)
    for op in accesses:
        assert isinstance(op, LoadOp | StoreOp)
        permute_indices(op, order)
    new = with_shape(alloc, [shape[dim] for dim in order])
    state.known.replace(buffer, new.result)
