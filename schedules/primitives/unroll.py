"""unroll: a loop's body is written out once for each iteration."""

from __future__ import annotations

from tcopt.dialects.loop import ForOp, LoopKind, LoopKindAttr
from tcopt.schedules.dependences.conflicts import check_serial
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State

UNROLL_LIMIT = 256
"""Most iterations that one loop may be written out for; more would only fill the cache."""


def unroll(state: State, loop: ForOp) -> None:
    """Write the body of `loop` out once for each iteration.

        loop.for %k = 0 to 4 {    ->    loop.for %k = 0 to 4 unrolled {

    Args:
        loop: a serial loop of at most `UNROLL_LIMIT` iterations.
    Raises:
        ScheduleError: the loop has more.
    """
    check_serial("unroll", loop)
    if loop.trip_count > UNROLL_LIMIT:
        raise illegal(
            "unroll",
            "loop",
            f"its {loop.trip_count} iterations are more than the limit of {UNROLL_LIMIT}",
            op=loop,
            hint="split it and unroll the inner loop",
        )
    loop.kind = LoopKindAttr(LoopKind.UNROLLED)
