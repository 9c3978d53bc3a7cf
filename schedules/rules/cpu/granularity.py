"""Which loops run on several threads, and how finely they are divided.

A kernel's time on one thread is estimated from its operations and the bytes it moves. If that
is little more than it costs to start and end a parallel loop, the kernel stays on one thread.
Otherwise outer loops are fused until there are many iterations for each core: threads claim
them as they go, and at the end wait for each other for up to one iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def parallelize(sch: Schedule, loops: Sequence[Loop], work: int, facts: CpuFacts) -> list[Loop]:
    """Make the outermost of nested loops parallel, fusing as many as give enough tasks.

    Args:
        loops: perfectly nested loops, outermost first.
        work: scalar operations that they do in all, to be done by vectors.
    Returns:
        The loops that remain, outermost first.
    """
    remaining = list(loops)
    if not remaining:
        return remaining
    outermost = sch.loop_op(remaining[0])
    time = estimated_ns(outermost, work, facts)
    if time < PARALLEL_NS:
        remark("schedule", outermost, f"one thread: est. {time:.0f} ns", missed=True)
        return remaining
    tasks, count = 1, 0
    for each in remaining:
        if not _should_divide(tasks, sch.extent(each), time, facts):
            break
        tasks *= sch.extent(each)
        count += 1
    if tasks < 2:
        return remaining
    fused = remaining[0] if count == 1 else sch.fuse(*remaining[:count])
    sch.parallel(fused)
    return [fused, *remaining[count:]]


def has_enough_tasks(sch: Schedule, loops: Sequence[Loop], work: int, facts: CpuFacts) -> bool:
    """Whether the iterations of nested loops divide well among the cores.

    Args:
        work: scalar operations that they do in all.
    """
    if not loops:
        return False
    time = estimated_ns(sch.loop_op(loops[0]), work, facts)
    return not _should_divide(prod(map(sch.extent, loops)), 2, time, facts)


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
    lanes = facts.lanes()
    return max(work / (OPERATIONS_PER_NS * lanes), _bytes_moved(nest) / BYTES_PER_NS)


def _bytes_moved(nest: loop.ForOp) -> int:
    """Bytes of the buffers that a nest's blocks use, as far as they can be used."""
    total = 0
    for block in blocks_under(nest):
        elements = prod(block.domain)
        for buffer in {*buffers_read(block), *buffers_written(block)}:
            total += min(elements, prod(buffer_shape(buffer))) * element_bits(block) // 8
    return total
