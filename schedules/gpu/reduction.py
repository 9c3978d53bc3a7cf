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

from tcopt.dialects.loop import BlockOp, StoreOp
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.passes.loop.lane_reductions import update_of
from tcopt.schedules.api import Schedule
from tcopt.schedules.gpu.facts import GpuFacts
from tcopt.schedules.gpu.threads import spread
from tcopt.schedules.handles import Block, Loop
from tcopt.schedules.nests import variable_loops
from tcopt.schedules.patterns import element_bits, match_block
from tcopt.schedules.rows import Rows
from tcopt.schedules.rules import Declined, schedule_rule
from tcopt.schedules.spatial import is_spatial
from tcopt.support.remarks import remark

TERMS_A_THREAD = 4
"""Elements of a row that make it worth another thread."""

SHORT_ROW = 32
"""Elements of a row for which no threads need to meet."""

FAN_IN = 16
"""Partial results that one thread combines."""


@schedule_rule(target="gpu", priority=50)
class Reduction:
    """Rule for functions that reduce and are no contraction."""

    name = "gpu-reduction"

    def apply(self, sch: Schedule, facts: GpuFacts) -> Declined | None:
        blocks = sch.blocks()
        reductions = [block for block in blocks if sch.block_op(block).is_reduction]
        if not reductions:
            return Declined("no block reduces")
        patterns = [match_block(sch.block_op(block)) for block in blocks]
        if any(p is not None and p.is_contraction and len(p.terms) > 1 for p in patterns):
            return Declined("a block adds products of two operands")
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
    between = [b for b in sch.blocks() if b != final and not sch.block_op(b).is_reduction]
    kept = sum(_row_elements(sch, b, rows, final) for b in between)
    if rows and (length <= SHORT_ROW or _are_neighbours(sch, final, rows, count, facts)):
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
                sch.decompose_reduction(block, loops[loops.index(thread) + 1])
        return None
    bits = element_bits(sch.block_op(final))
    if (kept + facts.max_threads) * bits // 8 > facts.shared:
        return Declined(f"a row's {kept} numbers do not fit shared memory")
    threads = facts.block_threads(-(-length // TERMS_A_THREAD))
    remark("schedule", sch.block_op(final), f"{threads} threads for each of {count} rows")
    return _block_a_row(sch, final, rows, threads, facts.shuffles)


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
    sch: Schedule, final: Block, rows: list[Loop], count: int, facts: GpuFacts
) -> bool:
    """Whether rows lie beside each other, element by element, and there are many."""
    pattern = match_block(sch.block_op(final))
    if pattern is None or not pattern.spatial or count < facts.running:
        return False
    loops = variable_loops(sch, final)
    last = pattern.spatial[-1]
    return loops.get(last) in rows and Rows(sch).is_contiguous(final, last)


def _block_a_row(
    sch: Schedule, final: Block, rows: list[Loop], threads: int, shuffles: bool
) -> Declined | None:
    """Let the threads of a block do the steps of a row one after the other, all of them at each."""
    if not rows:
        return Declined("there is only one row")
    row = sch.fuse(*rows) if len(rows) > 1 else rows[0]
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
        if op.is_reduction:
            if any(is_spatial(sch, each, op) and sch.extent(each) > 1 for each in loops):
                return Declined("a row has several results of a reduction")
            reduce = _reduce_in_warps if shuffles and _is_update(op) else _reduce_together
            reduce(sch, block, threads)
        elif any(sch.extent(each) > 1 for each in loops):
            if block != final:
                sch.set_scope(block, "shared")
            _share(sch, loops, threads)
        elif block != final:
            sch.set_scope(block, "register")
    return None


def _is_update(block: BlockOp) -> bool:
    """Whether `lower-thread-reductions` knows how a reduction combines two values."""
    stores = [op for op in block.body.block.ops if isinstance(op, StoreOp)]
    return len(stores) == 1 and update_of(stores[0]) is not None


def _share(sch: Schedule, loops: list[Loop], threads: int) -> None:
    """Spread loops over the threads of a block."""
    all = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    _, thread = sch.split(all, factors=[None, threads])
    sch.bind(thread, "threadIdx.x")


def _reduce_in_warps(sch: Schedule, block: Block, threads: int) -> None:
    """Each thread reduces its share in a register; `lower-thread-reductions` combines shares."""
    loops = sch.get_loops(block)[1:]
    all = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    _, thread = sch.split(all, factors=[None, threads])
    partial = sch.rfactor(thread)
    op, loops = sch.block_op(partial), sch.get_loops(partial)[1:]
    spatial = [each for each in loops if is_spatial(sch, each, op)]
    reduce = [each for each in loops if each not in spatial]
    sch.reorder(*spatial, *reduce)
    sch.bind(spatial[-1], "threadIdx.x")
    sch.set_scope(partial, "register")
    if reduce:
        sch.decompose_reduction(partial, reduce[0])
    sch.bind(sch.get_loops(block)[-1], "threadIdx.x")
    # All threads read what they made together.
    sch.set_scope(block, "shared")


def _reduce_together(sch: Schedule, block: Block, threads: int) -> None:
    """Each thread reduces its share in a register; a few combine the shares of others; then
    every thread combines what these have."""
    loops = sch.get_loops(block)[1:]
    all = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    _, thread = sch.split(all, factors=[None, threads])
    _meet(sch, sch.rfactor(thread))
    if threads > 2 * FAN_IN:
        (left,) = sch.get_loops(block)[1:]
        some, _ = sch.split(left, factors=[None, FAN_IN])
        _meet(sch, sch.rfactor(some))
    sch.set_scope(block, "register")
    sch.decompose_reduction(block, sch.get_loops(block)[1])


def _meet(sch: Schedule, partial: Block) -> None:
    """Accumulate in registers, a thread for each result, and leave results in shared memory."""
    op = sch.block_op(partial)
    loops = sch.get_loops(partial)[1:]
    spatial = [each for each in loops if is_spatial(sch, each, op)]
    reduce = [each for each in loops if each not in spatial]
    sch.set_scope(partial, "shared")
    copy = sch.cache_write(partial, "register")
    sch.reorder(*spatial, *reduce)
    thread = spatial[-1]
    sch.bind(thread, "threadIdx.x")
    sch.reverse_compute_at(copy, thread)
    if reduce:
        sch.decompose_reduction(partial, reduce[0])
