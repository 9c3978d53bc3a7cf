"""Reductions with their producers and consumers: softmax, norms, means, pooling.

A row is the set of elements of one result of a reduction. Long rows get one thread block each:

    each block
      each thread: its share of the row's maximum    combined in warps or shared memory
      each thread: its share of the exponentials     kept in shared memory
      each thread: its share of their sum
      each thread: its share of the quotients

Short rows, and windows of pooling, get one thread each; adjacent threads have rows whose elements
are adjacent in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.launches import is_update, launches_cycles, repeat_elements
from tcopt.schedules.rules.gpu.reduction_plan import Sharing, term_lanes
from tcopt.schedules.rules.gpu.reduction_space import AGAIN, THREAD, ReductionSpace, row_loops
from tcopt.schedules.rules.gpu.shared_reduction import accumulate, take_turns
from tcopt.schedules.rules.gpu.split_sum import GAIN
from tcopt.schedules.rules.gpu.threads import spread
from tcopt.schedules.rules.gpu.vector_rows import row_lanes
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.spatial import is_spatial
from tcopt.schedules.spaces.space import Choice, Point
from tcopt.support.machines.thread_blocks import ThreadBlocks
from tcopt.support.remarks import remark


@schedule_rule(target="gpu", priority=50)
class Reduction:
    """Rule for functions with reductions other than contractions."""

    name = "gpu-reduction"

    def space(self, sch: Schedule, facts: ThreadBlocks) -> ReductionSpace | Declined:
        blocks = sch.blocks()
        if not any(sch.block_op(block).is_reduction for block in blocks):
            return Declined("no block reduces")
        patterns = [match_block(sch.block_op(block)) for block in blocks]
        if any(p is not None and p.is_contraction and len(p.terms) > 1 for p in patterns):
            return Declined("a block adds products of two operands")
        copy = Schedule(sch.func.clone())
        found = _outer_rows(copy)
        if isinstance(found, Declined):
            return found
        space = ReductionSpace(copy, *found, facts)
        if refusal := space.refusal():
            return Declined(refusal)
        if launches_cycles(sch, facts) < GAIN * space.estimate(Point(space.default())):
            return Declined("launches for each step are estimated to take less time")
        return space

    def apply(
        self, sch: Schedule, facts: ThreadBlocks, space: ReductionSpace, choice: Choice
    ) -> Declined | None:
        found = _outer_rows(sch)
        if isinstance(found, Declined):
            return found
        final, rows = found
        if choice["elements"] == AGAIN:
            repeat_elements(sch)
        op, threads = sch.block_op(final), choice["threads"]
        if choice["row"] == THREAD:
            remark("schedule", op, f"a thread for each of {space.count} rows")
            _thread_a_row(sch, final, rows, threads, facts)
            return None
        remark("schedule", op, f"{threads} threads for each of {space.count} rows")
        return _block_a_row(sch, final, rows, Sharers(threads, bool(choice["vectors"])), facts)


@dataclass(frozen=True)
class Sharers:
    """The threads of a block that share a row.

    Attributes:
        threads: number of threads.
        vectors: whether each thread has several adjacent elements at a time, if rows have whole
            vectors of them.
    """

    threads: int
    vectors: bool


def _outer_rows(sch: Schedule) -> tuple[Block, list[Loop]] | Declined:
    """Return the last block, which does not reduce, and its loops over rows, moved outermost."""
    last = [block for block in sch.blocks() if not sch.consumers(block)]
    if len(last) != 1:
        return Declined(f"{len(last)} blocks have no consumer, one is wanted")
    final = last[0]
    if sch.block_op(final).is_reduction:
        final = sch.cache_write(final, "register")
    rows = row_loops(sch, final)
    return rows if isinstance(rows, Declined) else (final, rows)


def _thread_a_row(
    sch: Schedule, final: Block, rows: list[Loop], threads: int, facts: ThreadBlocks
) -> None:
    """Let one thread compute a whole row, with each reduction in a register."""
    thread = spread(sch, rows, facts, threads)
    for block in reversed(sch.blocks()):
        if block != final:
            sch.compute_at(block, thread)
    for block in sch.blocks():
        if sch.block_op(block).is_reduction:
            sch.set_scope(block, "register")
            loops = sch.get_loops(block)
            if inner := loops[loops.index(thread) + 1 :]:
                sch.decompose_reduction(block, inner[0])


def _block_a_row(
    sch: Schedule, final: Block, rows: list[Loop], sharers: Sharers, facts: ThreadBlocks
) -> Declined | None:
    """Let the threads of a block compute the steps of a row one after the other."""
    row = sch.fuse(*rows) if len(rows) > 1 else rows[0] if rows else _unit_row(sch, final)
    inner = sch.get_loops(final)[1:]
    if not any(sch.extent(each) > 1 for each in inner):
        # A single result is written by one thread.
        row, one = sch.split(row, factors=[None, 1])
        sch.bind(one, "threadIdx.x")
    sch.bind(row, "blockIdx.x")
    for block in reversed(sch.blocks()):
        if block != final:
            sch.compute_at(block, row)
    for block in sch.blocks():
        op = sch.block_op(block)
        loops = sch.get_loops(block)[1:]
        moving = [each for each in loops if sch.extent(each) > 1]
        if op.is_reduction and moving:
            if any(is_spatial(sch, each, op) for each in moving):
                return Declined("a row has several results of a reduction")
            if not is_update(op):
                return Declined(f"{block.name} does not combine its result with one new term")
            _reduce_together(sch, block, moving, sharers, facts)
        elif moving:
            if block != final:
                sch.set_scope(block, "shared")
            _share(sch, block, loops, sharers, facts)
        elif block != final:
            sch.set_scope(block, "register")
    return None


def _unit_row(sch: Schedule, final: Block) -> Loop:
    """Add a loop around the last block of a function with a single row."""
    loops = sch.get_loops(final)
    return sch.add_unit_loop(loops[0] if loops else final)


def _share(
    sch: Schedule, block: Block, loops: list[Loop], sharers: Sharers, facts: ThreadBlocks
) -> None:
    """Distribute the elements of a row over the threads of a block, in vectors if possible."""
    pattern = match_block(sch.block_op(block))
    lanes = row_lanes(pattern, facts) if pattern is not None and sharers.vectors else 1
    all = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    if lanes > 1 and sch.extent(all) >= lanes * facts.warp:
        _, thread, lane = sch.split(all, factors=[None, sharers.threads, lanes])
        sch.vectorize(lane)
    else:
        _, thread = sch.split(all, factors=[None, sharers.threads])
    sch.bind(thread, "threadIdx.x")


def _reduce_together(
    sch: Schedule, block: Block, loops: list[Loop], sharers: Sharers, facts: ThreadBlocks
) -> None:
    """Reduce each thread's share in a register; `lower-thread-reductions` combines the shares."""
    pattern = match_block(sch.block_op(block))
    assert pattern is not None
    threads = sharers.threads
    lanes = term_lanes(pattern, facts, threads) if sharers.vectors else 1
    sharing = Sharing(1, threads, False, lanes=lanes)
    thread, *_ = take_turns(sch, loops, sharing)
    accumulate(sch, sch.rfactor(thread), thread, "threadIdx.x")
    sch.bind(sch.get_loops(block)[-1], "threadIdx.x")
    # All threads read the combined result.
    sch.set_scope(block, "shared")
