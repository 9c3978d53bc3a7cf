"""What follows a reduction: computed on each tile while it is still in registers."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.api import Schedule
from tcopt.schedules.handles import Block, Loop
from tcopt.schedules.patterns import Access, BlockPattern, match_block


def take_epilogue(sch: Schedule, block: Block) -> Block:
    """The block that turns a reduction's results into the output.

    That is its consumer, where it has one that reads each result at its own place; otherwise
    a copy out of a buffer of its own.
    """
    consumers = sch.consumers(block)
    if len(consumers) == 1 and reads_pointwise(sch, consumers[0], block):
        return consumers[0]
    return sch.cache_write(block, "register")


def reads_pointwise(sch: Schedule, consumer: Block, producer: Block) -> bool:
    """Whether each element of `consumer` reads just an own element of `producer`."""
    pattern, source = match_block(sch.block_op(consumer)), match_block(sch.block_op(producer))
    if pattern is None or source is None or sch.block_op(consumer).is_reduction:
        return False
    reads = [t for t in pattern.terms if t.buffer is source.store.buffer]
    return all(read.steps == pattern.store.steps or _runs_through(read, pattern) for read in reads)


def blocks_beside(sch: Schedule, block: Block, epilogue: Block) -> list[Block]:
    """What else computes element by element, in program order: nests of their own."""
    return [
        each
        for each in sch.blocks()
        if each not in (block, epilogue) and not sch.block_op(each).is_reduction
    ]


def blocks_behind(sch: Schedule, block: Block) -> list[Block]:
    """The blocks that read what a block computes, at once or through others, in program order."""
    found = {block}
    for each in sch.blocks():
        if not found.isdisjoint(sch.producers(each)):
            found.add(each)
    return [each for each in sch.blocks() if each in found and each != block]


def follows_pointwise(sch: Schedule, block: Block, behind: Sequence[Block]) -> bool:
    """Whether each element of the blocks behind a block is made of those of the same place, and
    the last of them alone is a result.

    Diamonds are such: which of them reads what is not asked.
    """
    chain = [block, *behind]
    ends = [each for each in chain if not sch.consumers(each)]
    return ends == chain[-1:] and all(
        reads_in_place(sch, each, producer)
        for each in behind
        for producer in sch.producers(each)
        if producer in chain
    )


def reads_in_place(sch: Schedule, consumer: Block, producer: Block) -> bool:
    """Whether each element of `consumer` reads that of the same place of `producer` alone."""
    pattern, source = match_block(sch.block_op(consumer)), match_block(sch.block_op(producer))
    if pattern is None or source is None or pattern.reduce:
        return False
    reads = [t for t in pattern.terms if t.buffer is source.store.buffer]
    same = pattern.extents == tuple(source.extents[v] for v in source.spatial)
    return same and all(read.steps == pattern.store.steps for read in reads)


def stores_apart(sch: Schedule, epilogue: Block) -> bool:
    """Whether what vectors lie along is no row of the output."""
    pattern = match_block(sch.block_op(epilogue))
    if pattern is None:
        return False
    moving = [v for v in pattern.spatial if pattern.extents[v] > 1]
    return (
        bool(moving)
        and pattern.store.steps[moving[-1]] is not None
        and not (pattern.store.is_unit(moving[-1]))
    )


def _runs_through(read: Access, pattern: BlockPattern) -> bool:
    """Whether a consumer's variables are the indices of what it reads, in order."""
    moving = [v for v in pattern.spatial if pattern.extents[v] > 1]
    found: list[int] = []
    for v in moving:
        steps = read.steps[v]
        if steps is None or sorted(steps) != [*[0] * (len(steps) - 1), 1]:
            return False
        found.append(steps.index(1))
    return len(set(found)) == len(found) and found[-1:] == [len(buffer_shape(read.buffer)) - 1]


def attach_epilogue(sch: Schedule, epilogue: Block, outer: Sequence[Loop], lanes: int) -> None:
    """Compute an epilogue inside the innermost of the loops between tiles, in vectors."""
    if outer:
        sch.reverse_compute_at(epilogue, outer[-1])
    loops = sch.get_loops(epilogue)[len(outer) :]
    if not loops:
        return
    last = loops.pop()
    if sch.extent(last) > lanes:
        part, last = sch.split(last, factors=[None, lanes])
        loops.append(part)
    sch.vectorize(last)
    for each in loops:
        sch.unroll(each)
