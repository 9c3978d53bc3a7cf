"""Elementwise, broadcast, copy and padding blocks: a vector a thread, an element where rows have
no vectors.

    y[block, thread, lane] = f(x[block, thread, lane])

Neighbouring threads have neighbouring vectors, so that a warp moves one piece of memory. Where
there are fewer vectors than threads run at once, each thread has one element.
"""

from __future__ import annotations

from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.facts import GpuFacts
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


@schedule_rule(target="gpu", priority=20)
class Injective:
    """Rule for functions whose blocks all compute each element on its own."""

    name = "gpu-injective"

    def space(self, sch: Schedule, facts: GpuFacts) -> InjectiveSpace | Declined:
        blocks = sch.blocks()
        if any(sch.block_op(block).is_reduction for block in blocks):
            return Declined("a block reduces")
        return InjectiveSpace(sch, open_blocks(sch, blocks), facts)

    def apply(
        self, sch: Schedule, facts: GpuFacts, space: InjectiveSpace, choice: Choice
    ) -> Declined | None:
        for block in sch.blocks():
            schedule_injective(sch, block, facts, space.chosen(block, choice))
        return None


def schedule_injective(
    sch: Schedule, block: Block, facts: GpuFacts, chosen: Elements | None = None
) -> None:
    """Schedule one block in a launch of its own.

    Args:
        chosen: how its elements are spread over threads, by default as is usual.
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
