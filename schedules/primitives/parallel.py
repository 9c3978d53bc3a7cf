"""parallel: run the iterations of a loop on several threads."""

from __future__ import annotations

from tcopt.dialects.loop import ForOp, LoopKind, LoopKindAttr
from tcopt.schedules.dependences.conflicts import check_independent, check_serial
from tcopt.schedules.state.state import State


def parallel(state: State, loop: ForOp) -> None:
    """Run the iterations of `loop` in parallel.

        loop.for %i = 0 to 64 {    ->    loop.for %i = 0 to 64 parallel {

    Args:
        loop: a serial loop.
    Raises:
        ScheduleError: a block reduces over the loop, or two iterations may write the same element.
    """
    check_serial("parallel", loop)
    check_independent(state, "parallel", loop)
    loop.kind = LoopKindAttr(LoopKind.PARALLEL)
