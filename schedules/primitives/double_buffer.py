"""double_buffer: fetch later tiles while the current one is used."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64

from tcopt.dialects.loop import BlockOp, ForOp
from tcopt.dialects.loop.memory import SLOTS
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
    """Give the buffer that `block` fills several slots: some are filled while another is used.

        %s = loop.alloc shared : memref<64xf32>
    ->
        %s = loop.alloc shared {slots = 3 : i64} : memref<64xf32>

    The pass `double-buffer` copies the tiles of later iterations while the current one is used:
    asynchronously, up to `slots - 1` iterations ahead, if the target has such copies, and otherwise
    one iteration ahead, through registers. Threads then synchronise once in each iteration, and
    memory latency is hidden. Tiles also rotate through the slots of an accelerator's memory.

    Args:
        block: the only writer of a shared buffer, computed at a serial loop; or a writer of a
            buffer in an accelerator's memory.
        slots: number of slots; at least two for shared memory.
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
    if slots < 2:
        reason = f"{label} is in memory where tiles have at least two slots, not {slots}"
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
    alloc.attributes[SLOTS] = IntegerAttr(slots, i64)


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
