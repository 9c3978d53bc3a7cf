"""double_buffer: fetch the next tile while the current one is used."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64

from tcopt.dialects.loop import BlockOp, ForOp
from tcopt.dialects.loop.memory import DOUBLE_BUFFER, SLOTS
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    alloc_of,
    block_label,
    buffers_read,
    loops_of,
    value_label,
    written_buffer,
)


def double_buffer(state: State, block: BlockOp, slots: int = 2) -> None:
    """Give the buffer that `block` fills several slots: one is filled while another is used.

        %s = loop.alloc shared : memref<64xf32>
    ->
        %s = loop.alloc shared {double_buffer} : memref<64xf32>

    The pass `double-buffer` splits the block into loads, which come before the use of the current
    tile, and stores after it. Threads then synchronise once in each iteration, and memory latency
    is hidden. The buffer needs twice the shared memory.

    In an explicitly managed memory, such as an accelerator's, tiles rotate through `slots` slots:

        %s = loop.alloc acc_input : memref<64xi8>
    ->
        %s = loop.alloc acc_input {slots = 3 : i64} : memref<64xi8>

    Args:
        block: the only writer of a shared buffer, computed at a serial loop; or a writer of a
            buffer in an accelerator's memory.
        slots: number of slots; must be two for shared memory.
    Raises:
        ScheduleError: the buffer is in another memory scope, has another writer, or is not inside a
            loop; or the block's inputs are written in that loop.
    """
    buffer = written_buffer(block, "double_buffer")
    alloc, label = alloc_of(buffer), value_label(buffer)
    if slots < 1:
        raise illegal("double_buffer", "slots", f"{slots} is less than 1", op=block)
    if alloc is not None and alloc.scope.data.is_placed:
        alloc.attributes[SLOTS] = IntegerAttr(slots, i64)
        return
    if slots != 2:
        reason = f"{label} is in memory where tiles have two slots, not {slots}"
        raise illegal("double_buffer", "slots", reason, op=block)
    if alloc is None or not alloc.scope.data.is_shared:
        hint = "cache_read into shared makes a buffer to fill"
        raise illegal("double_buffer", "block", f"{label} is not shared", op=block, hint=hint)
    if any(writer is not block for writer in state.writers(buffer)):
        reason = f"another block writes {label} too"
        raise illegal("double_buffer", "block", reason, op=block)
    if not any(each.axis is None for each in loops_of(alloc)):
        hint = "compute_at moves it to where it is used"
        reason = f"{label} is filled once, outside of loops"
        raise illegal("double_buffer", "block", reason, op=block, hint=hint)
    _check_inputs(state, block, loops_of(alloc)[-1])
    alloc.attributes[DOUBLE_BUFFER] = UnitAttr()


def _check_inputs(state: State, block: BlockOp, loop: ForOp) -> None:
    """Check that the next tile does not depend on blocks inside of the loop."""
    for buffer in buffers_read(block):
        for writer in state.writers(buffer):
            if loop.is_ancestor(writer):
                reason = (
                    f"block {block_label(writer)} writes its input {value_label(buffer)} in the "
                    f"loop {value_label(loop.induction_variable)}, and the next tile is fetched "
                    "before"
                )
                raise illegal("double_buffer", "block", reason, op=block)
