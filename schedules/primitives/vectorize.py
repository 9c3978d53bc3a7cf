"""vectorize: a loop's iterations become the lanes of vectors."""

from __future__ import annotations

from tcopt.dialects.loop import BlockOp, ForOp, LoopKind, LoopKindAttr
from tcopt.schedules.dependences.conflicts import check_independent, check_serial, combines_terms
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import State


def vectorize(state: State, loop: ForOp) -> None:
    """Run the iterations of `loop` as lanes of vector instructions.

        loop.for %j = 0 to 16 {    ->    loop.for %j = 0 to 16 vectorized {

    A block may reduce over the loop if its combiner is associative and it has no init: the
    lanes are then combined with each other first, for which a sum or product of floats needs
    `fastmath<reassoc>`.

    Args:
        loop: a serial loop that holds blocks and nothing else.
    Raises:
        ScheduleError: the loop holds other loops or buffers, a block reduces over it that has
            an init or another combiner, or one that keeps the order of its terms, or two
            iterations write one element.
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
    """Whether the loop does nothing but combine terms with one element."""
    (block, *others) = loop.body.block.ops
    if others or not isinstance(block, BlockOp) or block.init is not None:
        return False
    return combines_terms(loop, block, "vectorize")
