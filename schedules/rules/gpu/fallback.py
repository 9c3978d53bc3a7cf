"""Fallback rules for GPUs: one launch for each stage, one element for each thread."""

from __future__ import annotations

from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.threads import spread
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.spatial import spatial_loops
from tcopt.support.machines.thread_blocks import ThreadBlocks


@schedule_rule(target="gpu", priority=0)
class Fallback:
    """Rule for functions that no other rule accepts."""

    name = "gpu-fallback"
    closed = "gpu-generic has the choices for such functions"
    last_resort = True

    def apply(self, sch: Schedule, facts: ThreadBlocks) -> Declined | None:
        for block in sch.blocks():
            element_a_thread(sch, block, facts)
        return None


@schedule_rule(target="gpu", priority=-10)
class Unfused:
    """Rule for functions whose loops cannot be proven independent once they are fused."""

    name = "gpu-unfused"
    closed = "loops that may depend on each other stay as they are"
    last_resort = True

    def apply(self, sch: Schedule, facts: ThreadBlocks) -> Declined | None:
        for block in sch.blocks():
            loops = sorted(spatial_loops(sch, block), key=sch.extent)
            if loops:
                outer, thread = sch.split(loops[-1], factors=[None, facts.max_threads])
                sch.bind(outer, "blockIdx.x")
                sch.bind(thread, "threadIdx.x")
            if len(loops) > 1:
                sch.bind(loops[-2], "blockIdx.y")
        return None


def element_a_thread(
    sch: Schedule, block: Block, facts: ThreadBlocks, threads: int | None = None
) -> None:
    """Let each thread compute one element of a block, with sums in a register.

    Args:
        threads: threads of a thread block; by default chosen for the number of elements.
    """
    spatial = spatial_loops(sch, block)
    if not spatial:
        return
    reduces = sch.block_op(block).is_reduction
    copy = sch.cache_write(block, "register") if reduces else None
    thread = spread(sch, spatial_loops(sch, block), facts, threads)
    if copy is not None:
        inner = sch.get_loops(block)
        first = inner[inner.index(thread) + 1]
        sch.decompose_reduction(block, first)
        sch.reverse_compute_at(copy, thread)
