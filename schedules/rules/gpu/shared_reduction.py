"""A reduction in launches of its own: threads of a block share each result, and blocks do where
there are few results and long sums.

    each block                                          rows x threads
      each thread: its share of a row's terms           in a register
      threads of a row: combine their shares            in warps, or shared memory
      one of them: epilogue and store

Where terms of neighbouring results lie side by side, neighbouring threads have these; elsewhere
they have neighbouring terms of one. With several blocks for a result the first launch leaves
partial results, which a second one combines in the same way. So each number is the end of a tree
that is some hundred terms deep at most, which is also what keeps it exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from tcopt.schedules.analysis.patterns import match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.facts import GpuFacts
from tcopt.schedules.rules.gpu.reduction_plan import Sharing, choose_sharing
from tcopt.schedules.rules.gpu.register_tile import unroll_steps
from tcopt.schedules.rules.spatial import is_spatial
from tcopt.support.remarks import remark

STEPS = 8
"""Loads of a thread that are on their way at a time."""


def share_reduction(
    sch: Schedule,
    block: Block,
    facts: GpuFacts,
    epilogue: Block | None = None,
    chosen: Sharing | None = None,
) -> None:
    """Schedule a reduction in a launch of its own, or two.

    Args:
        block: a reduction that `lower-thread-reductions` can share.
        epilogue: what reads each of its results at its own place, and nothing else does.
        chosen: how threads share it, by default as is estimated best.
    """
    pattern = match_block(sch.block_op(block))
    assert pattern is not None
    sharing = chosen or choose_sharing(pattern, facts)
    remark("schedule", sch.block_op(block), str(sharing))
    if sharing.parts > 1:
        spatial, reduce = loops_by_kind(sch, block)
        part, *terms = take_turns(sch, reduce, sharing)
        # Outside of all loops of the results, so that these become loops of two nests.
        sch.reorder(part, *spatial, *terms)
        partial = sch.rfactor(part)
        _share_in_block(sch, partial, sharing, None, terms)
        pattern = match_block(sch.block_op(block))
        assert pattern is not None
        sharing = choose_sharing(pattern, facts, may_split=False)
    _share_in_block(sch, block, sharing, epilogue)


def take_turns(sch: Schedule, reduce: list[Loop], sharing: Sharing) -> list[Loop]:
    """Let blocks and threads take turns at groups of neighbouring terms, so that each of them has
    as many, or one less, and each a first one.

    Returns:
        The loop over parts, if there are several; that over threads; and those over what a thread
        does at all times: steps, and neighbours of a vector.
    """
    terms = sch.fuse(*reduce) if len(reduce) > 1 else reduce[0]
    together = sharing.parts * sharing.threads * sharing.lanes
    steps = min(ceil(sch.extent(terms) / together), STEPS // sharing.lanes)
    sizes = {"step": max(steps, 1), "part": sharing.parts, "thread": sharing.threads}
    sizes["lane"] = sharing.lanes
    # Loops of one iteration would be no loops of the reduction.
    kept = {name: size for name, size in sizes.items() if size > 1}
    found = dict(zip(("turn", *kept), sch.split(terms, [None, *kept.values()]), strict=True))
    order = ("part", "thread", "turn", "step", "lane")
    loops = [found[name] for name in order if name in found]
    sch.reorder(*loops)
    return loops


def loops_by_kind(sch: Schedule, block: Block) -> tuple[list[Loop], list[Loop]]:
    """The loops of a block's results and those of its terms, moved outermost and innermost."""
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
        terms: the loops over them, where they have been split for threads; that over threads first.
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
        # What all threads of a row have made is one thread's to store.
        sch.bind(sch.add_unit_loop(epilogue), shared)


def accumulate(sch: Schedule, partial: Block, thread: Loop, axis: str) -> None:
    """Reduce each thread's share in a register.

    Args:
        thread: the outermost of the loops that no other block is in.
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
