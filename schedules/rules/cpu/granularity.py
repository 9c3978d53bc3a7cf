"""Decide which loops run on several threads, and how finely they are divided.

A kernel's time on one thread is estimated from its operations and the bytes it moves. If that is
little more than the cost of starting and ending a parallel loop, the kernel stays on one thread.
Otherwise outer loops are combined until there are many iterations for each core: threads claim
iterations dynamically, and at the end wait for each other for at most one iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tcopt.dialects import loop
from tcopt.dialects.loop.analysis import binding_values, buffer_shape
from tcopt.schedules.analysis.patterns import element_bits
from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.state.state import blocks_under, buffers_read, buffers_written
from tcopt.support.machines.machine import kernel_cycles, nanoseconds
from tcopt.support.remarks import remark

PARALLEL_STARTS = 6
"""Minimum estimated time of a kernel that is parallelised, in starts of a parallel region: threads
find the data in another core's cache."""

TASKS_PER_CORE = 32
"""Wanted iterations per core, so that the last one is a few percent of a thread's time."""

LEAST_TASKS_PER_CORE = 8
"""Minimum iterations per core however short they are; a thread claims several at once."""

TASK_STARTS = 4
"""Minimum time of an iteration if loops are fused only for load balance, in starts of a parallel
region."""


def parallelize(
    sch: Schedule,
    loops: Sequence[Loop],
    work: int,
    facts: CpuFacts,
    count: int | None = None,
) -> list[Loop]:
    """Parallelise the outermost of nested loops, fusing as many as give enough tasks.

    Args:
        loops: perfectly nested loops, outermost first.
        work: total number of scalar operations, which will be vectorised.
        count: maximum number of loops to fuse; estimated if None.
    Returns:
        The remaining loops, outermost first.
    """
    if not loops:
        return []
    time = blocks_cycles(blocks_under(sch.loop_op(loops[0])), work, facts)
    if count is None:
        count = parallel_loops(map(sch.extent, loops), time, facts)
    return run_parallel(sch, loops, min(count, len(loops)), time, facts)


def parallel_loops(extents: Iterable[int], time: float, facts: CpuFacts) -> int:
    """Return the number of outermost loops to fuse for enough tasks; 0 to stay on one thread.

    Args:
        extents: trip counts of the loops, outermost first.
        time: cycles of the nest on one thread.
    """
    if time < PARALLEL_STARTS * facts.start:
        return 0
    tasks, count = 1, 0
    for each in extents:
        if not _should_divide(tasks, each, time, facts):
            break
        tasks *= each
        count += 1
    return count if tasks >= 2 else 0


def run_parallel(
    sch: Schedule, loops: Sequence[Loop], count: int, time: float, facts: CpuFacts
) -> list[Loop]:
    """Run the iterations of the outermost loops in parallel.

    They are fused into one loop, or into a nest of parallel loops, whose iterations are distributed
    alike: a loop over a size is the outermost of those it is fused with, as iterations beyond the
    size then come last and are not visited.

    Args:
        loops: perfectly nested loops, outermost first.
        count: number of loops; 0 to stay on one thread.
        time: estimated cycles of the nest on one thread.
    Returns:
        The remaining loops, outermost first.
    """
    if not count:
        if loops and time < PARALLEL_STARTS * facts.start:
            text = f"one thread: est. {nanoseconds(time, facts):.0f} ns"
            remark("schedule", sch.loop_op(loops[0]), text, missed=True)
        return list(loops)
    groups: list[list[Loop]] = []
    for each in loops[:count]:
        if groups and not _is_over_size(sch, each):
            groups[-1].append(each)
        else:
            groups.append([each])
    outer = [sch.fuse(*group) if len(group) > 1 else group[0] for group in groups]
    for each in outer:
        sch.parallel(each)
    return [*outer, *loops[count:]]


def _is_over_size(sch: Schedule, handle: Loop) -> bool:
    """Whether the number of iterations in which something is computed depends on a size."""
    op = sch.loop_op(handle)
    return any(
        not isinstance(extent, int) and op.induction_variable in binding_values(block, position)
        for block in blocks_under(op)
        for position, extent in enumerate(block.live_domain)
    )


def has_enough_tasks(extents: Sequence[int], time: float, facts: CpuFacts) -> bool:
    """Whether nested loops have enough iterations to balance the load between the cores.

    Args:
        time: cycles of the nest on one thread.
    """
    return bool(extents) and not _should_divide(prod(extents), 2, time, facts)


def _should_divide(tasks: int, parts: int, time: float, facts: CpuFacts) -> bool:
    """Whether tasks should be divided further, into `parts` each."""
    if tasks < LEAST_TASKS_PER_CORE * facts.cores:
        return True
    is_long = time / (tasks * parts) >= TASK_STARTS * facts.start
    return tasks < TASKS_PER_CORE * facts.cores and is_long


def blocks_cycles(blocks: Iterable[loop.BlockOp], work: int, facts: CpuFacts) -> float:
    """Return a rough estimate of the cycles of some blocks on one thread.

    Args:
        work: their number of scalar operations.
    """
    return kernel_cycles(facts, work, sum(map(_bytes_moved, blocks)))


def _bytes_moved(block: loop.BlockOp) -> int:
    """Return the bytes that a block moves: its buffers, or one element per iteration if fewer."""
    elements, bits = prod(block.domain), element_bits(block)
    buffers = {*buffers_read(block), *buffers_written(block)}
    return sum(min(elements, prod(buffer_shape(buffer))) * bits // 8 for buffer in buffers)
