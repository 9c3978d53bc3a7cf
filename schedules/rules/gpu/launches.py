"""Schedule rule that puts the blocks of a function in separate launches, each with its own grid.

It serves reductions of few long rows, functions with several results, and reductions that no other
rule accepts.

    launch:  partial maxima, several blocks per row     launch:  maximum, one block per row
    launch:  partial sums of exponentials               launch:  sum
    launch:  quotients, one element per thread

Elementwise blocks between reductions are recomputed by their readers, which costs less than memory
traffic. A pointwise consumer of a reduction is computed by the thread that holds the result.
"""

from __future__ import annotations

from dataclasses import asdict
from math import prod

from tcopt.dialects.loop import BlockOp, LoadOp, StoreOp
from tcopt.dialects.loop.updates import update_of
from tcopt.schedules.analysis.patterns import BlockPattern, body_cost, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.epilogue import reads_in_place, reads_pointwise
from tcopt.schedules.rules.gpu.injective import schedule_injective
from tcopt.schedules.rules.gpu.injective_space import elements_cycles, usual_elements
from tcopt.schedules.rules.gpu.reduction_plan import choose_sharing, sharing_cycles
from tcopt.schedules.rules.gpu.shared_reduction import share_reduction
from tcopt.schedules.rules.gpu.sharing_space import SharingSpace
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.spaces.space import Choice
from tcopt.support.errors import ScheduleError
from tcopt.support.machines.thread_blocks import ThreadBlocks

MOST_REPEATED = 64
"""Maximum cost of a block that each of its readers recomputes, about a few math functions."""


@schedule_rule(target="gpu", priority=10)
class Launches:
    """Rule for functions with reductions: one or two launches for each reduction."""

    name = "gpu-launches"

    def space(self, sch: Schedule, facts: ThreadBlocks) -> SharingSpace | Declined:
        if not any(sch.block_op(block).is_reduction for block in sch.blocks()):
            return Declined("no block reduces")
        return launches_space(sch, facts)

    def apply(
        self, sch: Schedule, facts: ThreadBlocks, space: SharingSpace, choice: Choice
    ) -> Declined | None:
        schedule_launches(sch, facts, space, choice)
        return None


def launches_space(sch: Schedule, facts: ThreadBlocks) -> SharingSpace | Declined:
    """Return the space for launches per reduction, or decline."""
    for block in sch.blocks():
        op = sch.block_op(block)
        if op.is_reduction and (match_block(op) is None or not is_update(op)):
            return Declined(f"block {block.name} does not combine its result with one new term")
    if len(sch.blocks()) > 1:
        # The cost of the longest reduction includes the blocks that are inlined into it.
        sch = Schedule(sch.func.clone())
        repeat_elements(sch)
    return SharingSpace(_longest(sch), facts)


def launches_cycles(sch: Schedule, facts: ThreadBlocks) -> float:
    """Estimate the cycles of the launches of a function; see `schedule_launches`."""
    sch, total = Schedule(sch.func.clone()), 0.0
    repeat_elements(sch)
    for block in sch.blocks():
        op = sch.block_op(block)
        pattern = match_block(op)
        if pattern is not None and op.is_reduction:
            sharing = asdict(choose_sharing(pattern, facts))
            del sharing["is_across"]
            total += sharing_cycles(pattern, facts, **sharing)
        elif pattern is not None:
            total += elements_cycles(pattern, usual_elements(pattern, facts), facts)
    return total


def _longest(sch: Schedule) -> BlockPattern:
    """Return the reduction with the most terms."""
    patterns = (match_block(sch.block_op(block)) for block in sch.blocks())
    return max((p for p in patterns if p is not None and p.reduce), key=lambda p: p.work)


def schedule_launches(
    sch: Schedule, facts: ThreadBlocks, space: SharingSpace, choice: Choice
) -> None:
    """Schedule each block of a function in separate launches."""
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
    """Whether `lower-thread-reductions` may combine the terms of a reduction in any order."""
    stores = [op for op in block.body.block.ops if isinstance(op, StoreOp)]
    update = update_of(stores[0]) if len(stores) == 1 else None
    return update is not None and update.in_any_order


def repeat_elements(sch: Schedule) -> None:
    """Inline copies, such as padding, and cheap elementwise blocks into their readers.

    Blocks that are much smaller than their readers are not inlined, unless they are copies.
    """
    for block in sch.blocks():
        op = sch.block_op(block)
        if op.is_reduction or not sch.consumers(block) or body_cost(op) > MOST_REPEATED:
            continue
        readers = sch.consumers(block)
        # A block that only depends on reduced values is small, and is computed once.
        most = max(prod(sch.block_op(each).domain) for each in readers)
        if prod(op.domain) * len(readers) < most and not _is_copy(op):
            continue
        try:
            sch.compute_inline(block)
        except ScheduleError:
            continue


def _is_copy(block: BlockOp) -> bool:
    """Whether a block only moves elements."""
    return all(isinstance(op, LoadOp | StoreOp) for op in block.body.block.ops)


def _reads_once(sch: Schedule, consumer: Block, producer: Block) -> bool:
    if reads_in_place(sch, consumer, producer):
        return True
    results, read = (match_block(sch.block_op(each)) for each in (producer, consumer))
    if results is None or read is None or read.reduce:
        return False
    extents = [results.extents[v] for v in results.spatial if results.extents[v] > 1]
    same = extents == [n for n in read.extents if n > 1]
    return same and reads_pointwise(sch, consumer, producer)


def epilogue_of(sch: Schedule, block: Block) -> Block | None:
    """Return the pointwise consumer of a reduction, to fuse with it.

    Return None unless it is the only reader and its other inputs precede the reduction.
    """
    consumers = sch.consumers(block)
    if len(consumers) != 1 or not _reads_once(sch, consumers[0], block):
        return None
    order = sch.blocks()
    before = order[: order.index(block) + 1]
    return consumers[0] if all(e in before for e in sch.producers(consumers[0])) else None
