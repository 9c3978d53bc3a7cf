"""Loops on the threads of a grid."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.facts import GpuFacts


def spread(
    sch: Schedule, loops: Sequence[Loop], facts: GpuFacts, threads: int | None = None
) -> Loop:
    """Spread perfectly nested loops over blocks of threads; the loop over threads.

    Neighbouring threads run neighbouring iterations of the innermost loop.

    Args:
        threads: of a block, by default as many as suit the number of iterations.
    """
    all = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    if threads is None:
        threads = facts.block_threads(sch.extent(all))
    outer, thread = sch.split(all, factors=[None, threads])
    sch.bind(outer, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    return thread


def write_out(sch: Schedule, loops: Sequence[Loop], lanes: int) -> None:
    """Write a thread's loops out: the innermost as a vector of so many lanes."""
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
    """Let the threads of a block, so many along y and x, do together what they all need.

    Args:
        lanes: neighbours along the innermost loop that a thread handles as a vector.
    """
    if not loops:
        return
    all = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    _, down, across, lane = sch.split(all, factors=[None, *threads, lanes])
    sch.bind(down, "threadIdx.y")
    sch.bind(across, "threadIdx.x")
    if lanes > 1:
        sch.vectorize(lane)
