"""Long sums of few products' results: blocks share each sum, and another launch adds up (split-K).

    launch:  tiles of the result x parts of the sum       partial sums, in the workspace
    launch:  each result: its partial sums, what follows

A product of 64 x 8192 by 8192 x 64 numbers has too few tiles for all cores of a device. With parts
of the sum there are as many more. What that saves is compared with what the second launch and the
memory of the partial sums cost.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod

from tcopt.schedules.analysis.patterns import BlockPattern, access_bits, match_block
from tcopt.schedules.api.handles import Block
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.facts import GpuFacts
from tcopt.schedules.rules.gpu.injective import schedule_injective
from tcopt.schedules.rules.gpu.launches import epilogue_of, is_update
from tcopt.schedules.rules.gpu.reduction_plan import BYTE, LAUNCH
from tcopt.schedules.rules.gpu.shared_reduction import share_reduction
from tcopt.schedules.rules.nests import variable_loops
from tcopt.schedules.rules.rule import Declined
from tcopt.support.remarks import remark

POWERS = (2, 4, 8, 16, 32, 64)
"""Numbers of parts that are tried, or others near them. A thread adds up the most of them in the
second launch without being slow."""

NEAR = 0.6
"""The part of a power of two from which on another number is as good."""

LEAST_TERMS = 32
"""Steps along the longest variable of a sum that are worth a block."""

FEW_ROUNDS = 4
"""Tiles for each core from which on these are large enough, and cores busy."""

GAIN = 0.9
"""The part of the time of whole sums that is worth parts: estimates are not measurements."""


def choose_parts(
    pattern: BlockPattern,
    depth: int,
    blocks: int,
    time: Callable[[int], float | None],
    facts: GpuFacts,
    multiple: int = 1,
    rate: float = 1.0,
) -> int:
    """How many parts of a sum take the least time; 1 if it is better left whole.

    Args:
        depth: the reduce variable that is divided.
        blocks: of the whole sum.
        time: multiply-adds of the busiest core, by the number of parts; None if nothing fits.
        multiple: what the length of a part has to be one of.
        rate: how much faster than a multiply-add of its own the hardware does each.
    """
    whole = time(1)
    if whole is None or blocks >= FEW_ROUNDS * facts.cores or not is_update(pattern.block):
        return 1
    best, parts = GAIN * whole, 1
    for count in _counts(pattern.extents[depth], multiple):
        beside = beside_time(pattern, count, facts)
        # No tile does better than all cores that multiply all of the time.
        if beside + pattern.work / facts.cores / rate >= best:
            continue
        found = time(count)
        if found is not None and found + beside < best:
            best, parts = found + beside, count
    return parts


def part_counts(pattern: BlockPattern, depth: int, multiple: int = 1) -> list[int]:
    """Numbers of parts that a sum may be divided into; none if terms are not added one by one."""
    return _counts(pattern.extents[depth], multiple) if is_update(pattern.block) else []


def _counts(extent: int, multiple: int) -> list[int]:
    """Numbers of parts, none of which is too short or empty: those of the same length that are next
    to powers of two, or powers of two where there are none near."""
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


def beside_time(pattern: BlockPattern, parts: int, facts: GpuFacts) -> float:
    """What parts of sums take beside them, in multiply-adds: a launch, and memory."""
    if parts == 1:
        return 0.0
    results = prod(pattern.extents[v] for v in pattern.spatial)
    moved = 2 * parts * results * access_bits(pattern.store) / BYTE
    return (LAUNCH + moved / facts.memory_rate) * facts.multiply_adds


def split_sum(sch: Schedule, pattern: BlockPattern, depth: int, parts: int) -> BlockPattern:
    """Divide a sum whose loops are as they were; the block of partial sums."""
    block = sch.get_block(pattern.block.block_name.data)
    length = ceil(pattern.extents[depth] / parts)
    remark("schedule", sch.block_op(block), f"{parts} parts of each sum, of {length} steps")
    loops = variable_loops(sch, block)
    # Loops of one iteration would stay, innermost, as no variable's.
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
    sch: Schedule, sum_: Block, parts: int, left: list[Block] | Declined, facts: GpuFacts
) -> Declined | None:
    """Schedule what a tiled sum leaves: launches of their own, one of which adds up parts of the
    sum and does what follows.

    Args:
        left: blocks, or why there are no tiles.
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
