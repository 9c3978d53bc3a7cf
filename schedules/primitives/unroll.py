"""unroll: replicate a loop's body once for each iteration."""

from __future__ import annotations

from tcopt.dialects.loop import ForOp, LoopKind, LoopKindAttr
from tcopt.schedules.dependences.conflicts import check_serial
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State

UNROLL_LIMIT = 256
"""Maximum trip count of an unrolled loop; larger code would only fill the instruction cache."""


def unroll(state: State, loop: ForOp) -> None:
    """Replicate the body of `loop` once for each iteration.

        loop.for %k = 0 to 4 {    ->    loop.for %k = 0 to 4 unrolled {

    Args:
        loop: a serial loop of at most `UNROLL_LIMIT` iterations.
    Raises:
        ScheduleError: the loop has more iterations.
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
