"""Schedule elementwise, broadcast, copy and padding blocks: parallel rows, vectors along them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tcopt.schedules.analysis.patterns import body_cost, lane_bits, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.block_space import MOST_PARALLEL, BlockSpace
from tcopt.schedules.rules.cpu.estimated import ESTIMATED, estimated_knob, given
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.granularity import parallelize
from tcopt.schedules.rules.cpu.repetition import schedule_repeated
from tcopt.schedules.rules.cpu.transposition import schedule_transposed
from tcopt.schedules.rules.cpu.vectors import group_size, set_kinds, split_vectors
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice, Knob

GROUPS = (1, 2, 4, 8)
"""Candidate numbers of vectors that are unrolled together."""


class BlockChoices(NamedTuple):
    """Choices for a block; None where a decision is left to an estimate.

    Attributes:
        parallel: number of outermost loops that are fused and parallel.
        vectors: number of vectors that are unrolled together.
    """

    parallel: int | None = None
    vectors: int | None = None


ESTIMATED_DECISIONS = BlockChoices()
"""Leaves all decisions to estimates."""


class InjectiveSpace(BlockSpace):
    """Unrolled vectors and parallel loops of each block."""

    def __init__(self, sch: Schedule, blocks: Sequence[Block], facts: CpuFacts):
        self.blocks = tuple(blocks)
        knobs: list[Knob] = []
        for block in blocks:
            pattern = match_block(sch.block_op(block))
            loops = sch.get_loops(block)
            if pattern is None or not loops:
                continue
            counts = tuple(range(min(len(loops), MOST_PARALLEL) + 1))
            knobs.append(estimated_knob(self.name_of(block, "parallel"), counts))
            if pattern.spatial and pattern.store.is_unit(pattern.spatial[-1]):
                knobs.append(estimated_knob(self.name_of(block, "vectors"), GROUPS))
        super().__init__(sch, knobs, facts)

    def name_of(self, block: Block, name: str) -> str:
        """Return the name of a block's knob."""
        return name if len(self.blocks) == 1 else f"{block.name}.{name}"

    def chosen(self, block: Block, choice: Choice) -> BlockChoices:
        """Return the choices for a block."""
        parallel, vectors = (
            given(choice.get(self.name_of(block, each), ESTIMATED))
            for each in ("parallel", "vectors")
        )
        return BlockChoices(parallel, vectors)


@schedule_rule(target="cpu", priority=20)
class Injective:
    """Rule for functions without reductions."""

    name = "cpu-injective"

    def space(self, sch: Schedule, facts: CpuFacts) -> InjectiveSpace | Declined:
        blocks = sch.blocks()
        if any(sch.block_op(block).is_reduction for block in blocks):
            return Declined("a block reduces")
        return InjectiveSpace(sch, blocks, facts)

    def apply(
        self, sch: Schedule, facts: CpuFacts, space: InjectiveSpace, choice: Choice
    ) -> Declined | None:
        for block in space.blocks:
            schedule_injective(sch, block, facts, space.chosen(block, choice))
        return None


def schedule_injective(
    sch: Schedule, block: Block, facts: CpuFacts, chosen: BlockChoices = ESTIMATED_DECISIONS
) -> None:
    """Schedule one block in a separate loop nest."""
    op = sch.block_op(block)
    pattern = match_block(op)
    loops = sch.get_loops(block)
    if pattern is None or not loops:
        return
    work = pattern.work * body_cost(op)
    if not pattern.spatial or not pattern.store.is_unit(pattern.spatial[-1]):
        parallelize(sch, loops, work, facts, chosen.parallel)
        return
    if schedule_repeated(sch, block, pattern, facts, chosen.parallel):
        return
    if schedule_transposed(sch, block, pattern, facts, chosen.parallel):
        return
    vectorize_innermost(sch, block, facts, chosen.vectors)
    outer = sch.get_loops(block)[: len(loops) - 1]
    parallelize(sch, outer or sch.get_loops(block)[:1], work, facts, chosen.parallel)


def vectorize_innermost(
    sch: Schedule, block: Block, facts: CpuFacts, group: int | None = None
) -> None:
    """Split the innermost loop into vectors, and unroll several of them together."""
    op = sch.block_op(block)
    lanes = facts.lanes(lane_bits(op))
    last = sch.get_loops(block)[-1]
    extent = sch.extent(last)
    if group is None:
        group = group_size(extent, lanes, facts)
    set_kinds(sch, split_vectors(sch, last, lanes, group))
