"""What follows a reduction: computed on each tile while it is still in registers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.arith import ConstantOp, ExtFOp, TruncFOp

from tcopt.dialects.arith_ import (
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    FPToUIOp,
    SIToFPOp,
    TruncIOp,
    UIToFPOp,
)
from tcopt.dialects.loop import BlockOp, LoadOp, StoreOp
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import (
    FUNCTION,
    BlockPattern,
    StridedAccess,
    body_cost,
    match_block,
)
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.state.state import alloc_of, buffers_read


def take_epilogue(sch: Schedule, block: Block) -> Block:
    """The block that turns a reduction's results into the output.

    That is its consumer, where it has one that reads each result at its own place; otherwise
    a copy out of a buffer of its own.
    """
    return pointwise_consumer(sch, block) or sch.cache_write(block, "register")


def pointwise_consumer(sch: Schedule, block: Block) -> Block | None:
    """The one consumer of a block, if it reads each result at its own place."""
    consumers = sch.consumers(block)
    if len(consumers) == 1 and reads_pointwise(sch, consumers[0], block):
        return consumers[0]
    return None


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
    """Whether what vectors lie along is not a row of the output."""
    pattern = match_block(sch.block_op(epilogue))
    if pattern is None:
        return False
    moving = [v for v in pattern.spatial if pattern.extents[v] > 1]
    return (
        bool(moving)
        and pattern.store.steps[moving[-1]] is not None
        and not (pattern.store.is_unit(moving[-1]))
    )


def _runs_through(read: StridedAccess, pattern: BlockPattern) -> bool:
    """Whether a consumer's variables are the indices of what it reads, in order."""
    moving = [v for v in pattern.spatial if pattern.extents[v] > 1]
    found: list[int] = []
    for v in moving:
        steps = read.steps[v]
        if steps is None or sorted(steps) != [*[0] * (len(steps) - 1), 1]:
            return False
        found.append(steps.index(1))
    return len(set(found)) == len(found) and found[-1:] == [len(buffer_shape(read.buffer)) - 1]


_BESIDE = (
    LoadOp, StoreOp, ConstantOp, ExtFOp, TruncFOp, ExtSIOp, ExtUIOp, TruncIOp, SIToFPOp, UIToFPOp,
    FPToSIOp, FPToUIOp,
)  # fmt: skip
_INSTRUCTIONS = frozenset({"math.absf", "math.ceil", "math.floor", "math.roundeven", "math.trunc"})
"""What CPUs have instructions for, of math's functions."""

LONG = 8
"""Arithmetic of an epilogue from which on it has much code: that of one mathematical function."""

MANY_VECTORS = 8
"""Vectors of a tile from which on a long epilogue is a loop over them."""

SIDE_BY_SIDE = 4
"""Vectors for which a long epilogue is written out, so that their operations overlap."""


def attach_epilogue(sch: Schedule, epilogue: Block, outer: Sequence[Loop], lanes: int) -> None:
    """Compute an epilogue inside the innermost of the loops between tiles, in vectors.

    All of a tile is written out, as its sums are in registers. But the code of a long epilogue
    would be many times that of the sums: it is a loop over vectors, for which these are stored.
    """
    if outer:
        sch.reverse_compute_at(epilogue, outer[-1])
    loops = sch.get_loops(epilogue)[len(outer) :]
    if not loops:
        return
    count = prod(map(sch.extent, loops)) // lanes
    most = None
    if (
        count >= MANY_VECTORS
        and _arithmetic(sch.block_op(epilogue)) >= LONG
        and not stores_apart(sch, epilogue)
        and (sums := _sums(sch, epilogue)) is not None
    ):
        copy = sch.cache_read(epilogue, sums, "local")
        _in_vectors(sch, copy, len(outer), lanes, None)
        most = SIDE_BY_SIDE
    _in_vectors(sch, epilogue, len(outer), lanes, most)


def _arithmetic(block: BlockOp) -> int:
    """The cost of what a block computes, beside reading, writing, converting and constants."""
    ops = list(block.body.block.ops)
    beside = sum(isinstance(op, _BESIDE) for op in ops)
    return body_cost(block) - beside - (FUNCTION - 1) * sum(op.name in _INSTRUCTIONS for op in ops)


def _sums(sch: Schedule, epilogue: Block) -> int | None:
    """Which of the buffers that an epilogue reads is in registers."""
    for number, buffer in enumerate(buffers_read(sch.block_op(epilogue))):
        alloc = alloc_of(buffer)
        if alloc is not None and alloc.scope.data.in_registers:
            return number
    return None


def _in_vectors(sch: Schedule, block: Block, depth: int, lanes: int, most: int | None) -> None:
    """Vectorise a block inside of some loops, and write out all vectors, or about as many."""
    loops = sch.get_loops(block)[depth:]
    last = loops.pop()
    if sch.extent(last) > lanes:
        part, last = sch.split(last, factors=[None, lanes])
        loops.append(part)
    sch.vectorize(last)
    while loops and most is not None and prod(map(sch.extent, loops)) > most:
        loops.pop(0)
    for each in loops:
        sch.unroll(each)
