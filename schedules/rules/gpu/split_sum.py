"""Split-K: several blocks share each long sum, and another launch adds their partial sums.

    launch:  tiles of the result x parts of the sum       partial sums, in the workspace
    launch:  each result: its partial sums, epilogue

A product of 64 x 8192 by 8192 x 64 elements has too few tiles for all cores of a device; dividing
the sums into parts multiplies the number of tiles. The savings are compared with the costs of the
second launch and of memory traffic for the partial sums.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod

from tcopt.schedules.analysis.patterns import BlockPattern, access_bits, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.injective import schedule_injective
from tcopt.schedules.rules.gpu.launches import epilogue_of, is_update
from tcopt.schedules.rules.gpu.reduction_plan import BYTE
from tcopt.schedules.rules.gpu.shared_reduction import share_reduction
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined
from tcopt.support.machines.machine import kernel_cycles
from tcopt.support.machines.thread_blocks import ThreadBlocks
from tcopt.support.remarks import remark

POWERS = (2, 4, 8, 16, 32, 64)
"""Numbers of parts that are tried, or others close to them. In the second launch, one thread adds
up to the largest number of them without being slow."""

NEAR = 0.6
"""Fraction of a power of two from which another number is used instead."""

LEAST_TERMS = 32
"""Minimum number of steps of a part along the longest variable of a sum."""

FEW_ROUNDS = 4
"""Tiles per core from which tiles are large enough, and cores busy."""

GAIN = 0.9
"""Maximum estimated time of more launches relative to that of fewer for which they are chosen:
estimates are inaccurate."""


def choose_parts(
    pattern: BlockPattern,
    depth: int,
    blocks: int,
    time: Callable[[int], float | None],
    facts: ThreadBlocks,
    multiple: int = 1,
    rate: float = 1.0,
) -> int:
    """Return the number of parts of a sum with the lowest estimated time; 1 to leave it whole.

    Args:
        depth: the reduce variable that is divided.
        blocks: number of blocks without division.
        time: cycles by the number of parts; None if nothing fits.
        multiple: number that must divide the length of a part.
        rate: speed of the hardware relative to scalar multiply-adds.
    """
    whole = time(1)
    if whole is None or blocks >= FEW_ROUNDS * facts.cores or not is_update(pattern.block):
        return 1
    best, parts = GAIN * whole, 1
    for count in _counts(pattern.extents[depth], multiple):
        beside = beside_time(pattern, count, facts)
        # Lower bound: all cores multiply all of the time.
        if beside + kernel_cycles(facts, pattern.work / rate, 0, cores=facts.cores) >= best:
            continue
        found = time(count)
        if found is not None and found + beside < best:
            best, parts = found + beside, count
    return parts


def part_counts(pattern: BlockPattern, depth: int, multiple: int = 1) -> list[int]:
    """Return candidate numbers of parts of a sum; none if the terms cannot be reordered."""
    return _counts(pattern.extents[depth], multiple) if is_update(pattern.block) else []


def _counts(extent: int, multiple: int) -> list[int]:
    """Return numbers of parts that are not too short or empty.

    These are numbers of equal parts close to powers of two, or else the powers of two.
    """
    most = min(POWERS[-1], extent // max(LEAST_TERMS, multiple))
    even = [n for n in range(2, most + 1) if extent % n == 0 and extent // n % multiple == 0]
    found: set[int] = set()
    for power in POWERS:
        near = max((n for n in even if n <= power), default=1)
        if near > NEAR * power:
            found.add(near)
        elif multiple == 1 and power <= most and (power - 1) * ceil(extent / power) < extent:
            found.add(power)
    return sorted(found)


def beside_time(pattern: BlockPattern, parts: int, facts: ThreadBlocks) -> float:
    """Return the additional cycles of parts: a launch, and memory traffic."""
    if parts == 1:
        return 0.0
    results = prod(pattern.extents[v] for v in pattern.spatial)
    moved = 2 * parts * results * access_bits(pattern.store) / BYTE
    return kernel_cycles(facts, 0, moved, starts=1)


def split_sum(sch: Schedule, pattern: BlockPattern, depth: int, parts: int) -> BlockPattern:
    """Divide a sum whose loops are not scheduled yet; return the block of partial sums."""
    block = sch.get_block(pattern.block.block_name.data)
    length = ceil(pattern.extents[depth] / parts)
    remark("schedule", sch.block_op(block), f"{parts} parts of each sum, of {length} steps")
    loops = variable_loops(sch, block)
    # Loops with one iteration are fused into the depth: they would otherwise stay innermost.
    single = [loops.pop(v) for v in pattern.reduce if pattern.extents[v] == 1 and v in loops]
    if single:
        spatial = [loops[v] for v in pattern.spatial if v in loops]
        reduce = [loops[v] for v in pattern.reduce if v in loops and v != depth]
        sch.reorder(*spatial, *reduce, *single, loops[depth])
        loops[depth] = sch.fuse(*single, loops[depth])
    part, loops[depth] = sch.split(loops[depth], factors=[parts, None])
    spatial = [loops[v] for v in pattern.spatial if v in loops]
    reduce = [loops[v] for v in pattern.reduce if v in loops]
    sch.reorder(part, *spatial, *reduce)
    partial = sch.rfactor(part)
    found = match_block(sch.block_op(partial))
    assert found is not None
    return found


def finish_others(
    sch: Schedule, sum_: Block, parts: int, left: list[Block] | Declined, facts: ThreadBlocks
) -> Declined | None:
    """Schedule the remaining blocks in separate launches.

    One launch adds the parts of the sum and computes the epilogue.

    Args:
        left: the remaining blocks, or why there are no tiles.
    """
    if isinstance(left, Declined):
        return left
    epilogue = epilogue_of(sch, sum_) if parts > 1 else None
    for each in left:
        if each != epilogue:
            schedule_injective(sch, each, facts)
    if parts > 1:
        share_reduction(sch, sum_, facts, epilogue)
    return None
