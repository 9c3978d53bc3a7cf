"""vectorize: turn the iterations of a loop into vector lanes."""

from __future__ import annotations

from tcopt.dialects.loop import BlockOp, ForOp, LoopKind, LoopKindAttr
from tcopt.schedules.dependences.conflicts import check_independent, check_serial, combines_terms
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State


def vectorize(state: State, loop: ForOp) -> None:
    """Run the iterations of `loop` as lanes of vector instructions.

        loop.for %j = 0 to 16 {    ->    loop.for %j = 0 to 16 vectorized {

    A block may reduce over the loop if its combiner is associative and it has no init: the lanes
    are then first combined with each other, for which a sum or product of floats needs
    `fastmath<reassoc>`.

    Args:
        loop: a serial loop that contains only blocks.
    Raises:
        ScheduleError: the loop contains other loops or buffers; a block that reduces over it has an
            init, another combiner, or terms that must keep their order; or two iterations may write
            the same element.
    """
    check_serial("vectorize", loop)
    for op in loop.body.block.ops:
        if not isinstance(op, BlockOp):
            raise illegal(
                "vectorize",
                "loop",
                f"it holds a {op.name}, and only blocks become lanes",
                op=loop,
                hint="reorder makes it innermost",
            )
    if not _is_lane_reduction(loop):
        check_independent(state, "vectorize", loop)
    loop.kind = LoopKindAttr(LoopKind.VECTORIZED)


def _is_lane_reduction(loop: ForOp) -> bool:
    """Whether the loop only combines terms with a single element."""
    (block, *others) = loop.body.block.ops
    if others or not isinstance(block, BlockOp) or block.init is not None:
        return False
    return combines_terms(loop, block, "vectorize")
