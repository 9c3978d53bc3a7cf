"""Reductions in separate launches, in which threads of a block share each result.

Several blocks share a result if there are few results and long sums.

    each block                                          rows x threads
      each thread: its share of a row's terms           in a register
      threads of a row: combine their shares            in warps, or shared memory
      one of them: epilogue and store

If terms of adjacent results are contiguous, adjacent threads have adjacent results; otherwise they
have adjacent terms of one result. With several blocks for a result, the first launch leaves partial
results, which a second launch combines in the same way. Each element is thus the root of a
reduction tree with a depth of at most some hundred terms, which also bounds rounding errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.reduction_plan import STEPS, Sharing, choose_sharing
from tcopt.schedules.rules.gpu.register_tile import unroll_steps
from tcopt.schedules.rules.spatial import is_spatial
from tcopt.support.machines.thread_blocks import ThreadBlocks
from tcopt.support.remarks import remark


def share_reduction(
    sch: Schedule,
    block: Block,
    facts: ThreadBlocks,
    epilogue: Block | None = None,
    chosen: Sharing | None = None,
) -> None:
    """Schedule a reduction in one or two separate launches.

    Args:
        block: a reduction that `lower-thread-reductions` can share.
        epilogue: its only reader, which reads each result at its own position.
        chosen: how threads share it; by default the best estimated choice.
    """
    pattern = match_block(sch.block_op(block))
    assert pattern is not None
    sharing = chosen or choose_sharing(pattern, facts)
    remark("schedule", sch.block_op(block), str(sharing))
    if sharing.parts > 1:
        spatial, reduce = loops_by_kind(sch, block)
        part, *terms = take_turns(sch, reduce, sharing)
        # The loop is outside of all loops over results, so that these become loops of two nests.
        sch.reorder(part, *spatial, *terms)
        partial = sch.rfactor(part)
        _share_in_block(sch, partial, sharing, None, terms)
        pattern = match_block(sch.block_op(block))
        assert pattern is not None
        sharing = choose_sharing(pattern, facts, may_split=False)
    _share_in_block(sch, block, sharing, epilogue)


def take_turns(sch: Schedule, reduce: list[Loop], sharing: Sharing) -> list[Loop]:
    """Distribute groups of adjacent terms over blocks and threads in turn.

    Shares are equal or differ by one group, and each has a first term.

    Returns:
        The loop over parts, if there are several; the loop over threads; and the loops of a thread:
        steps, and lanes of a vector.
    """
    terms = sch.fuse(*reduce) if len(reduce) > 1 else reduce[0]
    together = sharing.parts * sharing.threads * sharing.lanes
    steps = min(ceil(sch.extent(terms) / together), STEPS // sharing.lanes)
    sizes = {"step": max(steps, 1), "part": sharing.parts, "thread": sharing.threads}
    sizes["lane"] = sharing.lanes
    # Factors of 1 are skipped: loops with one iteration are not bound to the reduction.
    kept = {name: size for name, size in sizes.items() if size > 1}
    found = dict(zip(("turn", *kept), sch.split(terms, [None, *kept.values()]), strict=True))
    order = ("part", "thread", "turn", "step", "lane")
    loops = [found[name] for name in order if name in found]
    sch.reorder(*loops)
    return loops


def loops_by_kind(sch: Schedule, block: Block) -> tuple[list[Loop], list[Loop]]:
    """Return the loops over results and over terms of a block, moved outermost and innermost."""
    op, loops = sch.block_op(block), sch.get_loops(block)
    spatial = [each for each in loops if is_spatial(sch, each, op)]
    reduce = [each for each in loops if each not in spatial]
    if spatial and reduce:
        sch.reorder(*spatial, *reduce)
    return spatial, reduce


def _share_in_block(
    sch: Schedule,
    block: Block,
    sharing: Sharing,
    epilogue: Block | None,
    terms: Sequence[Loop] = (),
) -> None:
    """Let the threads of a block reduce the terms of its rows.

    Args:
        terms: the loops over terms, if they are already split for threads; the loop over threads
            comes first.
    """
    spatial, reduce = loops_by_kind(sch, block)
    if not reduce:
        reduce = [sch.add_unit_loop(block)]
    if not spatial:
        spatial = [sch.add_unit_loop(reduce[0])]
    rows = sch.fuse(*spatial) if len(spatial) > 1 else spatial[0]
    own, shared = ("threadIdx.x", "threadIdx.y")[:: 1 if sharing.is_across else -1]
    around, row = sch.split(rows, factors=[None, sharing.rows])
    sch.bind(around, "blockIdx.x")
    sch.bind(row, own)
    if sharing.threads == 1:
        _reduce_alone(sch, block, row, reduce, epilogue)
        return
    thread, *_ = terms or take_turns(sch, reduce, replace(sharing, parts=1))
    accumulate(sch, sch.rfactor(thread), thread, shared)
    sch.bind(sch.get_loops(block)[-1], shared)
    if epilogue is not None:
        sch.set_scope(block, "shared")
        sch.reverse_compute_at(epilogue, row)
        # The result that all threads of a row computed is stored by one of them.
        sch.bind(sch.add_unit_loop(epilogue), shared)


def accumulate(sch: Schedule, partial: Block, thread: Loop, axis: str) -> None:
    """Reduce each thread's share in a register.

    Args:
        thread: the loop over threads; all loops inside belong to this block alone.
    """
    sch.bind(thread, axis)
    sch.set_scope(partial, "register")
    op, loops = sch.block_op(partial), sch.get_loops(partial)
    inner = loops[loops.index(thread) + 1 :]
    reduce = [o for o in inner if sch.extent(o) > 1 and not is_spatial(sch, o, op)]
    if len(reduce) > 1 or any(sch.extent(each) > STEPS for each in reduce):
        sch.decompose_reduction(partial, reduce.pop(0))
    for each in reduce:
        sch.unroll(each)


def _reduce_alone(
    sch: Schedule, block: Block, row: Loop, reduce: list[Loop], epilogue: Block | None
) -> None:
    """Reduce all terms of a row in a register of one thread."""
    if epilogue is None:
        epilogue = sch.cache_write(block, "register")
    else:
        sch.set_scope(block, "register")
    if left := unroll_steps(sch, reduce, 1):
        sch.decompose_reduction(block, left[0])
    sch.reverse_compute_at(epilogue, row)
