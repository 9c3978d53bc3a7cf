"""The rule that takes everything: loops as they are, the outermost parallel."""

from __future__ import annotations

from tcopt.dialects import loop
from tcopt.schedules.api import Schedule
from tcopt.schedules.cpu.facts import CpuFacts
from tcopt.schedules.cpu.granularity import parallelize
from tcopt.schedules.cpu.patterns import body_cost
from tcopt.schedules.handles import Block, Loop
from tcopt.schedules.rules import Declined, schedule_rule


@schedule_rule(target="cpu", priority=0)
class Fallback:
    """Rule for whatever no other rule takes."""

    name = "cpu-fallback"

    def apply(self, sch: Schedule, facts: CpuFacts) -> Declined | None:
        for block in sch.blocks():
            parallelize_spatial(sch, block, facts)
        return None


def parallelize_spatial(sch: Schedule, block: Block, facts: CpuFacts) -> None:
    """Make the outer loops of a block that run over spatial variables alone parallel."""
    op = sch.block_op(block)
    work = body_cost(op)
    for extent in op.domain:
        work *= extent
    spatial: list[Loop] = []
    for each in sch.get_loops(block):
        if not is_spatial(sch, each, op):
            break
        spatial.append(each)
    parallelize(sch, spatial, work, facts)


def is_spatial(sch: Schedule, each: Loop, block: loop.BlockOp) -> bool:
    """Whether a loop moves spatial variables of a block only."""
    variable = sch.loop_op(each).induction_variable
    positions = {i for i, v in enumerate(block.operands) if v is variable}
    bindings = zip(block.bindings.data.results, block.iter_kinds, strict=True)
    return all(
        kind is loop.IterKind.SPATIAL or positions.isdisjoint(binding.used_dims())
        for binding, kind in bindings
    )
