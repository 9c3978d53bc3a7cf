"""bind: a loop's iterations run on a hardware thread axis."""

from __future__ import annotations

from tcopt.dialects.loop import ForOp, LoopKind, LoopKindAttr, ThreadAxis, ThreadAxisAttr
from tcopt.schedules.conflicts import check_independent, check_serial
from tcopt.schedules.failure import illegal
from tcopt.schedules.state import State, loops_of, value_label


def bind(state: State, loop: ForOp, axis: ThreadAxis) -> None:
    """Give each iteration of `loop` a position of a thread axis.

        loop.for %i = 0 to 64 {    ->    loop.for %i = 0 to 64 thread threadIdx.x {

    Args:
        loop: a serial loop.
        axis: the axis, used by no loop around or inside.
    Raises:
        ScheduleError: the axis is taken, a block reduces over the loop, or two iterations
            write one element.
    """
    check_serial("bind", loop)
    inside = [op for op in loop.walk() if isinstance(op, ForOp)]
    for other in (*loops_of(loop), *inside):
        if other.axis is not None and other.axis.data is axis:
            label = value_label(other.induction_variable)
            raise illegal("bind", "axis", f"{axis.value} is taken by {label}", op=loop)
    check_independent("bind", loop)
    loop.kind = LoopKindAttr(LoopKind.THREAD)
    loop.axis = ThreadAxisAttr(axis)
