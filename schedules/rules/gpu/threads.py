"""Map loops to the threads of a grid."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.support.machines.thread_blocks import ThreadBlocks


def spread(
    sch: Schedule, loops: Sequence[Loop], facts: ThreadBlocks, threads: int | None = None
) -> Loop:
    """Map perfectly nested loops to blocks of threads; return the loop over threads.

    Adjacent threads run adjacent iterations of the innermost loop.

    Args:
        threads: threads of a block; by default chosen for the number of iterations.
    """
    all = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    if threads is None:
        threads = facts.block_threads(sch.extent(all))
    outer, thread = sch.split(all, factors=[None, threads])
    sch.bind(outer, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    return thread


def write_out(sch: Schedule, loops: Sequence[Loop], lanes: int) -> None:
    """Unroll a thread's loops; vectorise the innermost one if it has `lanes` iterations."""
    *outer, last = loops
    if lanes > 1 and sch.extent(last) == lanes:
        sch.vectorize(last)
    else:
        outer.append(last)
    for each in outer:
        sch.unroll(each)


def share_work(
    sch: Schedule, loops: Sequence[Loop], threads: tuple[int, int], lanes: int = 1
) -> None:
    """Distribute work that all threads of a block need over these threads, along y and x.

    Args:
        threads: number of threads along y and x.
        lanes: adjacent iterations of the innermost loop that a thread handles as a vector.
    """
    if not loops:
        return
    all = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    _, down, across, lane = sch.split(all, factors=[None, *threads, lanes])
    sch.bind(down, "threadIdx.y")
    sch.bind(across, "threadIdx.x")
    if lanes > 1:
        sch.vectorize(lane)
