"""virtual_thread: interleave the iterations of a loop in one instruction stream."""

from __future__ import annotations

from tcopt.dialects.loop import ForOp, LoopKind, LoopKindAttr
from tcopt.schedules.dependences.conflicts import check_independent, check_serial
from tcopt.schedules.state.state import State


def virtual_thread(state: State, loop: ForOp) -> None:
    """Interleave the iterations of `loop`, each a virtual thread, in one instruction stream.

        loop.for %i = 0 to 2 {    ->    loop.for %i = 0 to 2 virtual {

    Args:
        loop: a serial loop.
    Raises:
        ScheduleError: a block reduces over the loop, or two iterations may write the same element.
    """
    check_serial("virtual_thread", loop)
    check_independent(state, "virtual_thread", loop)
    loop.kind = LoopKindAttr(LoopKind.VIRTUAL)
