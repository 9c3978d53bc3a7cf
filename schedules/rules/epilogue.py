"""Epilogues: pointwise consumers of a reduction, computed on each tile while it is in registers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import sub

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
    """Return the block that computes the output from a reduction's results.

    This is the reduction's only consumer if it reads the results pointwise, and otherwise a new
    block that copies the results from registers to the output.
    """
    return pointwise_consumer(sch, block) or sch.cache_write(block, "register")


def pointwise_consumer(sch: Schedule, block: Block) -> Block | None:
    """Return a block's consumer if it is the only one and reads pointwise; else None."""
    consumers = sch.consumers(block)
    if len(consumers) == 1 and reads_pointwise(sch, consumers[0], block):
        return consumers[0]
    return None


def reads_pointwise(sch: Schedule, consumer: Block, producer: Block) -> bool:
    """Whether each element of `consumer` reads one element of `producer` that no other reads."""
    pattern, source = match_block(sch.block_op(consumer)), match_block(sch.block_op(producer))
    if pattern is None or source is None or sch.block_op(consumer).is_reduction:
        return False
    reads = [t for t in pattern.terms if t.buffer is source.store.buffer]
    return all(read.steps == pattern.store.steps or _runs_through(read, pattern) for read in reads)


def blocks_beside(sch: Schedule, block: Block, epilogue: Block) -> list[Block]:
    """Return all blocks other than reductions and the given two, in program order.

    They get separate loop nests.
    """
    return [
        each
        for each in sch.blocks()
        if each not in (block, epilogue) and not sch.block_op(each).is_reduction
    ]


def blocks_behind(sch: Schedule, block: Block) -> list[Block]:
    """Return the direct and indirect consumers of a block, in program order."""
    found = {block}
    for each in sch.blocks():
        if not found.isdisjoint(sch.producers(each)):
            found.add(each)
    return [each for each in sch.blocks() if each in found and each != block]


def follows_pointwise(sch: Schedule, block: Block, behind: Sequence[Block]) -> bool:
    """Whether all consumers of a block are pointwise and lead to a single result.

    Each consumer may read any earlier block, so chains with branches that join are included.

    Args:
        behind: direct and indirect consumers of the block, in program order.
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
    """Whether each element of `consumer` reads `producer` only at its own index."""
    pattern, source = match_block(sch.block_op(consumer)), match_block(sch.block_op(producer))
    if pattern is None or source is None or pattern.reduce:
        return False
    reads = [t for t in pattern.terms if t.buffer is source.store.buffer]
    same = pattern.extents == tuple(source.extents[v] for v in source.spatial)
    return same and all(read.steps == pattern.store.steps for read in reads)


def stores_apart(sch: Schedule, epilogue: Block) -> bool:
    """Whether the store of an epilogue is not contiguous along its innermost variable."""
    pattern = match_block(sch.block_op(epilogue))
    if pattern is None:
        return False
    moving = [v for v in pattern.spatial if pattern.extents[v] > 1]
    return (
        bool(moving)
        and pattern.store.steps[moving[-1]] is not None
        and not (pattern.store.is_unit(moving[-1]))
    )


def stores_neighbours(sch: Schedule, epilogue: Block, lanes: int) -> bool:
    """Whether each vector along the innermost variable is stored to adjacent output elements."""
    pattern = match_block(sch.block_op(epilogue))
    if pattern is None:
        return False
    moving = [v for v in pattern.spatial if pattern.extents[v] > 1]
    if not moving or lanes == 1 or pattern.store.is_unit(moving[-1]):
        return True
    store, row = pattern.store.op, pattern.block.iter_vars[moving[-1]]
    own = [i for i, value in enumerate(store.indices) if value is row]
    moved = [e for e in store.map.data.results if not own or not e.used_dims().isdisjoint(own)]
    if len(own) != 1 or any(e.used_dims() != set(own) for e in moved):
        return False
    if store.map.data.results[pattern.store.last] not in moved:
        return False

    def at(index: int) -> list[int]:
        values = [index if i in own else 0 for i in range(store.map.data.num_dims)]
        return [e.eval(values, []) for e in store.map.data.results]

    ends = ((at(n), at(n + lanes - 1)) for n in range(0, pattern.extents[moving[-1]], lanes))
    return all(
        last[pattern.store.last] - first[pattern.store.last] == lanes - 1
        and sum(map(abs, map(sub, last, first))) == lanes - 1
        for first, last in ends
    )


def _runs_through(read: StridedAccess, pattern: BlockPattern) -> bool:
    """Whether each variable of a consumer is one index of an access, the innermost the last."""
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
"""Functions of the math dialect for which CPUs have an instruction."""

LONG = 8
"""Minimum cost of an epilogue that counts as long, equal to that of one math function."""

MANY_VECTORS = 8
"""Minimum number of vectors in a tile for a long epilogue to become a loop over vectors."""

SIDE_BY_SIDE = 4
"""Unroll factor of the loop over vectors in a long epilogue, for instruction-level parallelism."""


def attach_epilogue(sch: Schedule, epilogue: Block, outer: Sequence[Loop], lanes: int) -> None:
    """Compute an epilogue inside the innermost of the loops over tiles, and vectorise it.

    The epilogue of the whole tile is unrolled, because the sums are in registers. A long epilogue
    would be unrolled to much more code than the sums, so it becomes a loop over vectors instead,
    for which the sums are spilled to a local buffer.

    Args:
        outer: the loops over tiles, outermost first.
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
    """Return the cost of a block, not counting loads, stores, conversions and constants."""
    ops = list(block.body.block.ops)
    beside = sum(isinstance(op, _BESIDE) for op in ops)
    return body_cost(block) - beside - (FUNCTION - 1) * sum(op.name in _INSTRUCTIONS for op in ops)


def _sums(sch: Schedule, epilogue: Block) -> int | None:
    """Return the position of the first buffer in registers among those that an epilogue reads.

    None if it reads none.
    """
    for number, buffer in enumerate(buffers_read(sch.block_op(epilogue))):
        alloc = alloc_of(buffer)
        if alloc is not None and alloc.scope.data.in_registers:
            return number
    return None


def _in_vectors(sch: Schedule, block: Block, depth: int, lanes: int, most: int | None) -> None:
    """Vectorise a block's innermost loop, and unroll the loops over vectors.

    Args:
        depth: number of outer loops to leave unchanged.
        most: maximum number of vectors to unroll; None for all.
    """
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
