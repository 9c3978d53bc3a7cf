"""The fallback rule for CPUs: unchanged loops, the outermost ones parallel."""

from __future__ import annotations

from tcopt.schedules.analysis.patterns import body_cost
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import parallelize
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.spatial import spatial_loops


@schedule_rule(target="cpu", priority=0)
class Fallback:
    """Rule for functions that no other rule accepts."""

    name = "cpu-fallback"
    closed = "loops stay as they are"
    last_resort = True

    def apply(self, sch: Schedule, facts: CpuFacts) -> Declined | None:
        for block in sch.blocks():
            parallelize_spatial(sch, block, facts)
        return None


def parallelize_spatial(sch: Schedule, block: Block, facts: CpuFacts) -> None:
    """Parallelise the outer loops of a block that move only spatial variables."""
    op = sch.block_op(block)
    work = body_cost(op)
    for extent in op.domain:
        work *= extent
    parallelize(sch, spatial_loops(sch, block), work, facts)
