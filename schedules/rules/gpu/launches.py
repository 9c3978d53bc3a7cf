"""Functions whose blocks are launched one after the other, each by as many threads as it has
work for: few long rows, several results, and whatever reduces in a way that no other rule knows.

    launch:  partial maxima, several blocks a row       launch:  maximum, a block a row
    launch:  partial sums of exponentials               launch:  sum
    launch:  quotients, an element a thread

What is computed for each element between reductions is computed again where it is read, which
costs less than memory for it. What follows a reduction at its own place is done by the thread that
has its result.
"""

from __future__ import annotations

from math import prod

from tcopt.dialects.loop import BlockOp, StoreOp
from tcopt.dialects.loop.updates import update_of
from tcopt.schedules.analysis.patterns import BlockPattern, body_cost, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.epilogue import reads_in_place
from tcopt.schedules.rules.gpu.facts import GpuFacts
from tcopt.schedules.rules.gpu.injective import schedule_injective
from tcopt.schedules.rules.gpu.shared_reduction import share_reduction
from tcopt.schedules.rules.gpu.sharing_space import SharingSpace
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice
from tcopt.support.errors import ScheduleError

MOST_REPEATED = 64
"""Operations of what is computed again for each of its readers: those of a few functions."""


@schedule_rule(target="gpu", priority=10)
class Launches:
    """Rule for functions that reduce, a launch or two for each reduction."""

    name = "gpu-launches"

    def space(self, sch: Schedule, facts: GpuFacts) -> SharingSpace | Declined:
        if not any(sch.block_op(block).is_reduction for block in sch.blocks()):
            return Declined("no block reduces")
        return launches_space(sch, facts)

    def apply(
        self, sch: Schedule, facts: GpuFacts, space: SharingSpace, choice: Choice
    ) -> Declined | None:
        schedule_launches(sch, facts, space, choice)
        return None


def launches_space(sch: Schedule, facts: GpuFacts) -> SharingSpace | Declined:
    """What launches for each reduction leave open, or why there are none."""
    for block in sch.blocks():
        op = sch.block_op(block)
        if op.is_reduction and (match_block(op) is None or not is_update(op)):
            return Declined(f"block {block.name} does not combine its result with one new term")
    if len(sch.blocks()) > 1:
        # What is computed again is read by the reduction itself.
        sch = Schedule(sch.func.clone())
        repeat_elements(sch)
    return SharingSpace(_longest(sch), facts)


def _longest(sch: Schedule) -> BlockPattern:
    """The reduction with the most terms."""
    patterns = (match_block(sch.block_op(block)) for block in sch.blocks())
    return max((p for p in patterns if p is not None and p.reduce), key=lambda p: p.work)


def schedule_launches(sch: Schedule, facts: GpuFacts, space: SharingSpace, choice: Choice) -> None:
    """Schedule each block of a function in launches of its own."""
    repeat_elements(sch)
    longest = space.pattern.block.block_name.data
    taken: set[Block] = set()
    for block in sch.blocks():
        if block in taken:
            continue
        if sch.block_op(block).is_reduction:
            epilogue = epilogue_of(sch, block)
            taken.update([] if epilogue is None else [epilogue])
            chosen = space.sharing(choice) if block.name == longest else None
            share_reduction(sch, block, facts, epilogue, chosen)
        else:
            schedule_injective(sch, block, facts)


def is_update(block: BlockOp) -> bool:
    """Whether `lower-thread-reductions` may combine what a reduction adds up, two at a time."""
    stores = [op for op in block.body.block.ops if isinstance(op, StoreOp)]
    update = update_of(stores[0]) if len(stores) == 1 else None
    return update is not None and update.in_any_order


def repeat_elements(sch: Schedule) -> None:
    """Compute what lies between again where it is read, if it is as long as what it is made of
    and takes few operations."""
    for block in sch.blocks():
        op = sch.block_op(block)
        if op.is_reduction or not sch.consumers(block) or body_cost(op) > MOST_REPEATED:
            continue
        readers = sch.consumers(block)
        # What is made of sums alone is short, and computed once.
        most = max(prod(sch.block_op(each).domain) for each in readers)
        if prod(op.domain) * len(readers) < most:
            continue
        try:
            sch.compute_inline(block)
        except ScheduleError:
            continue


def epilogue_of(sch: Schedule, block: Block) -> Block | None:
    """What reads each result of a reduction at its own place, where nothing else reads it and all
    else that it reads is there before."""
    consumers = sch.consumers(block)
    if len(consumers) != 1 or not reads_in_place(sch, consumers[0], block):
        return None
    order = sch.blocks()
    before = order[: order.index(block) + 1]
    return consumers[0] if all(e in before for e in sch.producers(consumers[0])) else None
