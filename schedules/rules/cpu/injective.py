"""Elementwise, broadcast, copy and padding blocks: parallel over rows, vectors along them."""

from __future__ import annotations

from tcopt.schedules.analysis.patterns import body_cost, element_bits, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import parallelize
from tcopt.schedules.rules.cpu.repetition import schedule_repeated
from tcopt.schedules.rules.cpu.transposition import schedule_transposed
from tcopt.schedules.rules.cpu.vectors import group_size, set_kinds, split_vectors
from tcopt.schedules.rules.rule import Declined, schedule_rule


@schedule_rule(target="cpu", priority=20)
class Injective:
    """Rule for functions whose blocks all compute each element on its own."""

    name = "cpu-injective"

    def apply(self, sch: Schedule, facts: CpuFacts) -> Declined | None:
        if any(sch.block_op(block).is_reduction for block in sch.blocks()):
            return Declined("a block reduces")
        for block in sch.blocks():
            schedule_injective(sch, block, facts)
        return None


def schedule_injective(sch: Schedule, block: Block, facts: CpuFacts) -> None:
    """Schedule one block in a loop nest of its own."""
    op = sch.block_op(block)
    pattern = match_block(op)
    loops = sch.get_loops(block)
    if pattern is None or not loops:
        return
    work = pattern.work * body_cost(op)
    if not pattern.spatial or not pattern.store.is_unit(pattern.spatial[-1]):
        parallelize(sch, loops, work, facts)
        return
    if schedule_repeated(sch, block, pattern, facts):
        return
    if schedule_transposed(sch, block, pattern, facts):
        return
    vectorize_innermost(sch, block, facts)
    outer = sch.get_loops(block)[: len(loops) - 1]
    parallelize(sch, outer or sch.get_loops(block)[:1], work, facts)


def vectorize_innermost(sch: Schedule, block: Block, facts: CpuFacts) -> None:
    """Cut the innermost loop into vectors, and write several of them out side by side."""
    op = sch.block_op(block)
    lanes = facts.lanes(element_bits(op))
    last = sch.get_loops(block)[-1]
    extent = sch.extent(last)
    group = group_size(extent, lanes, facts)
    set_kinds(sch, split_vectors(sch, last, lanes, group))
