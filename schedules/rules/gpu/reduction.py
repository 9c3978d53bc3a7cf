"""Reductions with what they are made of and what follows: softmax, norms, means, pooling.

A row is what one result of a reduction is made of. Long rows have a block of threads each:

    each block
      each thread: its share of the row's maximum    threads meet in warps, or shared memory
      each thread: its share of the exponentials     kept in shared memory
      each thread: its share of their sum
      each thread: its share of the quotients

Short rows, and windows of pooling, have a thread each; next to it are those whose elements are
next to each other in memory.
"""

from __future__ import annotations

from math import prod

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import element_bits, match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.facts import GpuFacts
from tcopt.schedules.rules.gpu.launches import is_update, repeat_elements
from tcopt.schedules.rules.gpu.reduction_plan import Sharing, better_apart, row_threads, term_lanes
from tcopt.schedules.rules.gpu.shared_reduction import accumulate, take_turns
from tcopt.schedules.rules.gpu.threads import spread
from tcopt.schedules.rules.gpu.vector_rows import row_lanes
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rows import Rows
from tcopt.schedules.rules.rule import Declined, schedule_rule
from tcopt.schedules.rules.spatial import is_spatial
from tcopt.support.remarks import remark

SHORT_ROW = 32
"""Elements of a row for which no threads need to meet."""

FEW_NUMBERS = 16
"""Numbers of a row that a block keeps wherever its memory is."""

ENOUGH = 4
"""The part of the threads that run at once for which rows beside each other are many."""

LONG_COLUMN = 128
"""Elements of rows beside each other for which one thread is too slow."""


@schedule_rule(target="gpu", priority=50)
class Reduction:
    """Rule for functions that reduce and are not contractions."""

    name = "gpu-reduction"

    def apply(self, sch: Schedule, facts: GpuFacts) -> Declined | None:
        blocks = sch.blocks()
        reductions = [block for block in blocks if sch.block_op(block).is_reduction]
        if not reductions:
            return Declined("no block reduces")
        patterns = [match_block(sch.block_op(block)) for block in blocks]
        if any(p is not None and p.is_contraction and len(p.terms) > 1 for p in patterns):
            return Declined("a block adds products of two operands")
        if reason := better_apart(sch, facts):
            return Declined(reason)
        last = [block for block in blocks if not sch.consumers(block)]
        if len(last) != 1:
            return Declined(f"{len(last)} blocks have no consumer, one is wanted")
        final = last[0]
        if sch.block_op(final).is_reduction:
            final = sch.cache_write(final, "register")
        rows = row_loops(sch, final)
        if isinstance(rows, Declined):
            return rows
        return schedule_rows(sch, final, rows, facts)


def row_loops(sch: Schedule, final: Block) -> list[Loop] | Declined:
    """The loops of the last block that all reductions keep, moved outermost."""
    pattern = match_block(sch.block_op(final))
    if pattern is None:
        return Declined("the last block does not store once")
    loops = variable_loops(sch, final)
    dataflow = Rows(sch)
    rows: list[Loop] = []
    rest: list[Loop] = []
    for variable in (v for v in pattern.spatial if v in loops):
        shared = dataflow.kept(final, variable)
        if shared is None:
            rest.append(loops[variable])
        elif shared > 1:
            outer, inner = sch.split(loops[variable], factors=[None, shared])
            rows.append(outer)
            rest.append(inner)
        else:
            rows.append(loops[variable])
    if rows and rest:
        sch.reorder(*rows, *rest)
    return rows


def schedule_rows(
    sch: Schedule, final: Block, rows: list[Loop], facts: GpuFacts
) -> Declined | None:
    """Give each row a block of threads, or a thread."""
    length = max(_length(sch, block) for block in sch.blocks() if sch.block_op(block).is_reduction)
    count = prod(map(sch.extent, rows))
    is_short = length <= SHORT_ROW or _are_neighbours(sch, final, rows, count, length, facts)
    bits = element_bits(sch.block_op(final))
    room = facts.accumulators if rows and is_short else facts.shared * 8 // bits - facts.max_threads
    if _kept(sch, rows, final) > max(room, 0):
        repeat_elements(sch)
    kept = _kept(sch, rows, final)
    if rows and is_short:
        if kept > facts.accumulators:
            return Declined(f"a thread would keep {kept} numbers of its row")
        remark("schedule", sch.block_op(final), f"a thread for each of {count} rows")
        thread = spread(sch, rows, facts)
        for block in reversed(sch.blocks()):
            if block != final:
                sch.compute_at(block, thread)
        for block in sch.blocks():
            if sch.block_op(block).is_reduction:
                sch.set_scope(block, "register")
                loops = sch.get_loops(block)
                if inner := loops[loops.index(thread) + 1 :]:
                    sch.decompose_reduction(block, inner[0])
        return None
    if kept > max(room, FEW_NUMBERS):
        return Declined(f"a row's {kept} numbers do not fit shared memory")
    threads = row_threads(length, facts)
    remark("schedule", sch.block_op(final), f"{threads} threads for each of {count} rows")
    return _block_a_row(sch, final, rows, threads, facts)


def _kept(sch: Schedule, rows: list[Loop], final: Block) -> int:
    """Numbers that are kept of a row between its first step and its last."""
    between = [b for b in sch.blocks() if b != final and not sch.block_op(b).is_reduction]
    return sum(_row_elements(sch, b, rows, final) for b in between)


def _length(sch: Schedule, block: Block) -> int:
    op = sch.block_op(block)
    pattern = match_block(op)
    return 0 if pattern is None else prod(op.domain[v] for v in pattern.reduce)


def _row_elements(sch: Schedule, block: Block, rows: list[Loop], final: Block) -> int:
    """Numbers that a block computes for each row."""
    pattern = match_block(sch.block_op(block))
    if pattern is None:
        return 0
    return -(-prod(buffer_shape(pattern.store.buffer)) // prod(map(sch.extent, rows)))


def _are_neighbours(
    sch: Schedule, final: Block, rows: list[Loop], count: int, length: int, facts: GpuFacts
) -> bool:
    """Whether rows lie beside each other, element by element, and are many or not long."""
    pattern = match_block(sch.block_op(final))
    if pattern is None or not pattern.spatial:
        return False
    if count * ENOUGH < facts.running and length > LONG_COLUMN:
        return False
    loops = variable_loops(sch, final)
    last = pattern.spatial[-1]
    return loops.get(last) in rows and Rows(sch).is_contiguous(final, last)


def _block_a_row(
    sch: Schedule, final: Block, rows: list[Loop], threads: int, facts: GpuFacts
) -> Declined | None:
    """Let the threads of a block do the steps of a row one after the other, all of them at each."""
    row = sch.fuse(*rows) if len(rows) > 1 else rows[0] if rows else _unit_row(sch, final)
    inner = sch.get_loops(final)[1:]
    if not any(sch.extent(each) > 1 for each in inner):
        # A single result is one thread's to write.
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
            _reduce_together(sch, block, moving, threads, facts)
        elif moving:
            if block != final:
                sch.set_scope(block, "shared")
            _share(sch, block, loops, threads, facts)
        elif block != final:
            sch.set_scope(block, "register")
    return None


def _unit_row(sch: Schedule, final: Block) -> Loop:
    """A loop around all that the last block does, of which there is one row."""
    loops = sch.get_loops(final)
    return sch.add_unit_loop(loops[0] if loops else final)


def _share(sch: Schedule, block: Block, loops: list[Loop], threads: int, facts: GpuFacts) -> None:
    """Spread the elements of a row over the threads of a block, vectors of them where it has as
    many."""
    pattern = match_block(sch.block_op(block))
    lanes = 1 if pattern is None else row_lanes(pattern, facts)
    all = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    if lanes > 1 and sch.extent(all) >= lanes * facts.warp:
        _, thread, lane = sch.split(all, factors=[None, threads, lanes])
        sch.vectorize(lane)
    else:
        _, thread = sch.split(all, factors=[None, threads])
    sch.bind(thread, "threadIdx.x")


def _reduce_together(
    sch: Schedule, block: Block, loops: list[Loop], threads: int, facts: GpuFacts
) -> None:
    """Each thread reduces its share in a register; `lower-thread-reductions` combines shares."""
    pattern = match_block(sch.block_op(block))
    assert pattern is not None
    sharing = Sharing(1, threads, False, lanes=term_lanes(pattern, facts, threads))
    thread, *_ = take_turns(sch, loops, sharing)
    accumulate(sch, sch.rfactor(thread), thread, "threadIdx.x")
    sch.bind(sch.get_loops(block)[-1], "threadIdx.x")
    # All threads read what they made together.
    sch.set_scope(block, "shared")
