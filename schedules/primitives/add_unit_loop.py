"""add_unit_loop: add a loop of one iteration around a loop or a block."""

from __future__ import annotations

from tcopt.dialects.loop import BlockOp, ForOp, LoopKind
from tcopt.schedules.edits.nest import new_loop
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State, loops_of


def add_unit_loop(state: State, target: BlockOp | ForOp) -> ForOp:
    """Add a loop with one iteration around a loop or a block.

        loop.block "total" (%vk: reduce 64 = %k) {...}
    ->
        loop.for %u = 0 to 1 {
          loop.block "total" ...

    A block without loops, such as the single result of a full reduction, gets a loop at which other
    blocks can be computed, or which can be bound to threads.

    Args:
        target: the loop or block to wrap.
    Raises:
        ScheduleError: the target is inside a vectorized loop, which may contain blocks only.
    """
    if any(each.loop_kind is LoopKind.VECTORIZED for each in loops_of(target)):
        raise illegal("add_unit_loop", "target", "it is inside of a vectorized loop", op=target)
    unit = new_loop(1, "u", target)
    parent = target.parent_block()
    assert parent is not None
    parent.insert_op_before(unit, target)
    target.detach()
    unit.body.block.add_op(target)
    return unit
