"""Elementwise, broadcast, copy and padding blocks: one vector per thread, or one element if rows
cannot be vectorised.

    y[block, thread, lane] = f(x[block, thread, lane])

Adjacent threads have adjacent vectors, so that a warp accesses contiguous memory. If there are
fewer vectors than concurrent threads, each thread has one element.
"""

from __future__ import annotations

from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.fallback import element_a_thread
from tcopt.schedules.rules.gpu.injective_space import (
    Elements,
    InjectiveSpace,
    open_blocks,
    usual_elements,
)
from tcopt.schedules.rules.gpu.threads import spread
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice
from tcopt.support.machines.thread_blocks import ThreadBlocks


@schedule_rule(target="gpu", priority=20)
class Injective:
    """Rule for functions without reductions."""

    name = "gpu-injective"

    def space(self, sch: Schedule, facts: ThreadBlocks) -> InjectiveSpace | Declined:
        blocks = sch.blocks()
        if any(sch.block_op(block).is_reduction for block in blocks):
            return Declined("a block reduces")
        return InjectiveSpace(sch, open_blocks(sch, blocks), facts)

    def apply(
        self, sch: Schedule, facts: ThreadBlocks, space: InjectiveSpace, choice: Choice
    ) -> Declined | None:
        for block in sch.blocks():
            schedule_injective(sch, block, facts, space.chosen(block, choice))
        return None


def schedule_injective(
    sch: Schedule, block: Block, facts: ThreadBlocks, chosen: Elements | None = None
) -> None:
    """Schedule one block in a separate launch.

    Args:
        chosen: how its elements are distributed over threads; `usual_elements` by default.
    """
    op = sch.block_op(block)
    pattern = match_block(op)
    loops = sch.get_loops(block)
    if pattern is None or op.is_reduction or not loops:
        element_a_thread(sch, block, facts)
        return
    chosen = chosen or usual_elements(pattern, facts)
    lanes = chosen.lanes
    if lanes == 1:
        element_a_thread(sch, block, facts, chosen.threads)
        return
    *outer, last = loops
    if sch.extent(last) > lanes:
        last, lane = sch.split(last, factors=[None, lanes])
        outer.append(last)
    else:
        lane = last
    if outer:
        spread(sch, outer, facts, chosen.threads)
    sch.vectorize(lane)
