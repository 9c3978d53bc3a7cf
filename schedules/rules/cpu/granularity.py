"""Which loops run on several threads, and how finely they are divided.

A kernel's time on one thread is estimated from its operations and the bytes it moves. If that
is little more than it costs to start and end a parallel loop, the kernel stays on one thread.
Otherwise outer loops are fused until there are many iterations for each core: threads claim
them as they go, and at the end wait for each other for up to one iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tcopt.dialects import loop
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import element_bits
from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.state.state import blocks_under, buffers_read, buffers_written
from tcopt.support.remarks import remark

PARALLEL_NS = 3_000
"""Estimated time of the shortest kernel worth dividing. A second thread that is awake joins
in about half a microsecond, and finds the data in another core's cache."""

TASKS_PER_CORE = 32
"""Iterations wanted for each core, so that the last one is a few percent of a thread's time."""

LEAST_TASKS_PER_CORE = 8
"""Iterations wanted for each core however short they are; a thread claims several at once."""

TASK_NS = 2_000
"""Iterations are not made shorter than this for the sake of balance."""

OPERATIONS_PER_NS = 4
"""Scalar operations for each vector lane, near what two units do at 2 to 3 GHz."""

BYTES_PER_NS = 16
"""What one core moves between its registers and the outer caches."""


def parallelize(
    sch: Schedule,
    loops: Sequence[Loop],
    work: int,
    facts: CpuFacts,
    count: int | None = None,
) -> list[Loop]:
    """Make the outermost of nested loops parallel, fusing as many as give enough tasks.

    Args:
        loops: perfectly nested loops, outermost first.
        work: scalar operations that they do in all, to be done by vectors.
        count: how many to fuse, as far as there are so many, where that is not estimated.
    Returns:
        The loops that remain, outermost first.
    """
    if not loops:
        return []
    time = estimated_ns(sch.loop_op(loops[0]), work, facts)
    if count is None:
        count = parallel_loops(map(sch.extent, loops), time, facts)
    return run_parallel(sch, loops, min(count, len(loops)), time)


def parallel_loops(extents: Iterable[int], time: float, facts: CpuFacts) -> int:
    """How many of the outermost of nested loops make enough tasks; 0 if one thread does it all.

    Args:
        extents: of the loops, outermost first.
        time: nanoseconds of the nest on one thread.
    """
    if time < PARALLEL_NS:
        return 0
    tasks, count = 1, 0
    for each in extents:
        if not _should_divide(tasks, each, time, facts):
            break
        tasks *= each
        count += 1
    return count if tasks >= 2 else 0


def run_parallel(sch: Schedule, loops: Sequence[Loop], count: int, time: float) -> list[Loop]:
    """Make the outermost loops one that is parallel.

    Args:
        loops: perfectly nested loops, outermost first.
        count: how many of them are fused.
        time: nanoseconds of the nest on one thread, as estimated.
    Returns:
        The loops that remain, outermost first.
    """
    if not count:
        if loops and time < PARALLEL_NS:
            nest = sch.loop_op(loops[0])
            remark("schedule", nest, f"one thread: est. {time:.0f} ns", missed=True)
        return list(loops)
    fused = loops[0] if count == 1 else sch.fuse(*loops[:count])
    sch.parallel(fused)
    return [fused, *loops[count:]]


def has_enough_tasks(extents: Sequence[int], time: float, facts: CpuFacts) -> bool:
    """Whether the iterations of nested loops divide well among the cores.

    Args:
        time: nanoseconds of the nest on one thread.
    """
    return bool(extents) and not _should_divide(prod(extents), 2, time, facts)


def _should_divide(tasks: int, parts: int, time: float, facts: CpuFacts) -> bool:
    """Whether iterations should be divided into some parts each."""
    if tasks < LEAST_TASKS_PER_CORE * facts.cores:
        return True
    return tasks < TASKS_PER_CORE * facts.cores and time / (tasks * parts) >= TASK_NS


def estimated_ns(nest: loop.ForOp, work: int, facts: CpuFacts) -> float:
    """Roughly how long a loop nest takes on one thread.

    Args:
        work: its scalar operations.
    """
    return blocks_ns(blocks_under(nest), work, facts)


def blocks_ns(blocks: Iterable[loop.BlockOp], work: int, facts: CpuFacts) -> float:
    """Roughly how long a nest of some blocks takes on one thread.

    Args:
        work: their scalar operations.
    """
    lanes = facts.lanes()
    moved = sum(map(_bytes_moved, blocks))
    return max(work / (OPERATIONS_PER_NS * lanes), moved / BYTES_PER_NS)


def _bytes_moved(block: loop.BlockOp) -> int:
    """Bytes of the buffers that a block uses, as far as they can be used."""
    elements, bits = prod(block.domain), element_bits(block)
    buffers = {*buffers_read(block), *buffers_written(block)}
    return sum(min(elements, prod(buffer_shape(buffer))) * bits // 8 for buffer in buffers)
