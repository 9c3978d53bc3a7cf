"""reorder: permute loops of one nest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.ir import SSAValue

from tcopt.dialects.loop import BlockOp, ForOp, IterKind, LoopKind
from tcopt.dialects.loop.dependences import runs_once
from tcopt.schedules.dependences.order import check_permutation
from tcopt.schedules.edits.nest import bound_values, move_ops
from tcopt.schedules.state.failure import illegal
from tcopt.schedules.state.state import (
    State,
    block_label,
    blocks_under,
    buffers_read,
    buffers_written,
    loops_of,
    value_label,
)


def reorder(state: State, loops: Sequence[ForOp]) -> None:
    """Reorder loops of one nest into the given order, outermost first.

        loop.for %i = 0 to 8 {                 loop.for %k = 0 to 32 {
          loop.for %j = 0 to 16 {      ->        loop.for %j = 0 to 16 {
            loop.for %k = 0 to 32 {                loop.for %i = 0 to 8 {

    for `reorder(k, i)`. Loops that are not named keep their positions. A block with `loop.init`
    stays correct in any order, because its reduce variables are all 0 in the first iterations of
    their loops.

    Args:
        loops: loops of one chain, in which each contains the next one and nothing else.
    Raises:
        ScheduleError: the loops are not in one chain; a vectorized loop would not stay innermost; a
            block inside needs a result that these loops are still reducing; or two accesses that
            may alias would be exchanged.
    """
    chain = _chain(loops)
    places = [p for p, loop in enumerate(chain) if loop in loops]
    order = list(chain)
    for place, loop in zip(places, loops, strict=True):
        order[place] = loop
    if order == chain:
        return
    for loop in order[:-1]:
        if loop.loop_kind is LoopKind.VECTORIZED:
            label = value_label(loop.induction_variable)
            raise illegal("reorder", "loops", f"the vectorized {label} would not stay innermost")
    _check_dependences(chain)
    check_permutation(state.known, "reorder", chain, order)
    parent = chain[0].parent_block()
    assert parent is not None
    for loop in chain[1:]:
        loop.detach()
    if order[-1] is not chain[-1]:
        move_ops(chain[-1].body.block, order[-1].body.block)
    if order[0] is not chain[0]:
        parent.insert_op_before(order[0], chain[0])
        chain[0].detach()
    for outer, inner in pairwise(order):
        outer.body.block.add_op(inner)


def _chain(loops: Sequence[ForOp]) -> list[ForOp]:
    """Return the loops from the outermost named one to the innermost."""
    if len(set(loops)) != len(loops) or len(loops) < 2:
        raise illegal("reorder", "loops", "give two or more different loops")
    innermost = max(loops, key=lambda loop: len(loops_of(loop)))
    around = [*loops_of(innermost), innermost]
    for loop in loops:
        if loop not in around:
            raise illegal(
                "reorder",
                "loops",
                f"{value_label(loop.induction_variable)} and "
                f"{value_label(innermost.induction_variable)} are not in one nest",
                op=loop,
            )
    chain = around[min(around.index(loop) for loop in loops) :]
    for outer, inner in pairwise(chain):
        body = outer.body.block
        if body.first_op is not inner or body.last_op is not inner:
            raise illegal(
                "reorder",
                "loops",
                f"{value_label(outer.induction_variable)} holds more than "
                f"{value_label(inner.induction_variable)}",
                op=outer,
                hint="reorder before moving other blocks between the loops",
            )
    return chain


def _check_dependences(chain: Sequence[ForOp]) -> None:
    variables = {loop.induction_variable for loop in chain}
    blocks = list(blocks_under(chain[0]))
    for block in blocks:
        reduced = bound_values(block, IterKind.REDUCE) & variables
        if not reduced:
            continue
        _check_reduction(block, reduced, chain[0])
        outputs = set(buffers_written(block))
        for other in blocks:
            touched = {*buffers_read(other), *buffers_written(other)}
            if other is not block and not outputs.isdisjoint(touched):
                raise illegal(
                    "reorder",
                    "loops",
                    f"block {block_label(other)} inside needs the result of "
                    f"{block_label(block)}, which these loops reduce",
                    op=chain[0],
                )


def _check_reduction(block: BlockOp, reduced: set[SSAValue], outermost: ForOp) -> None:
    """Check that each point gets its first term, where the init runs, first, and each term once."""
    for value in reduced & bound_values(block, IterKind.SPATIAL):
        raise illegal(
            "reorder",
            "loops",
            f"{value_label(value)} holds spatial and reduced parts of {block_label(block)}, "
            "whose sums would start over in the middle",
            op=outermost,
            hint="reorder before fusing",
        )
    if not runs_once(block, outermost):
        raise illegal(
            "reorder",
            "loops",
            f"they run the reduction {block_label(block)} for the same points again",
            op=outermost,
        )
