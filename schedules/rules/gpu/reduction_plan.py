"""Cost model for reductions that several threads share in a separate launch."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    StridedAccess,
    access_bits,
    element_bits,
    match_block,
)
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.facts import GpuFacts

TERMS_A_THREAD = 4
"""Minimum number of terms of a sum per thread."""

TERMS_A_PART = 16
"""Minimum number of terms of each thread to divide a sum among several blocks."""

MOST_PARTS = 512
"""Maximum number of partial results of an element: a block combines them in a step or two."""

BLOCKS_A_CORE = 2
"""Blocks per core that keep memory accesses in flight while others synchronise their threads."""

BLOCK_RATE = 8.0
"""Approximate bytes per cycle that one block fetches: each thread has a few loads in flight."""

NEIGHBOURS = 32
"""Adjacent results whose terms are loaded together: those of a warp, or a cache line."""

SCATTERED = 8.0
"""Slowdown of loads of single words from different lines of memory."""

BYTE = 8
"""Bits of a byte."""


@dataclass(frozen=True)
class Sharing:
    """How threads share a reduction.

    Attributes:
        rows: results of a block.
        threads: threads of each result.
        is_across: whether adjacent threads have adjacent results, instead of terms of one result.
        parts: blocks that reduce a share of each result, which another launch combines.
        lanes: adjacent terms that a thread loads at once.
    """

    rows: int
    threads: int
    is_across: bool
    parts: int = 1
    lanes: int = 1

    def __str__(self) -> str:
        parts = f", {self.parts} blocks for each" if self.parts > 1 else ""
        return f"{self.threads} threads for each of {self.rows} results a block{parts}"


def choose_sharing(pattern: BlockPattern, facts: GpuFacts, may_split: bool = True) -> Sharing:
    """Choose how to share a reduction: as many threads as have enough work, with coalesced loads.

    Args:
        may_split: whether several blocks may share a result.
    """
    count = prod(pattern.extents[v] for v in pattern.spatial)
    length = prod(pattern.extents[v] for v in pattern.reduce)
    is_across = has_neighbouring_rows(pattern)
    most = facts.block_threads(max(count, 1) * ceil(length / TERMS_A_THREAD))
    wanted = max(ceil(facts.running / max(count, 1)), 1)
    if is_across:
        rows = min(power_of_two(count), NEIGHBOURS, most)
        wanted = min(wanted, ceil(length / TERMS_A_THREAD))
        threads = min(most // rows, power_of_two(wanted))
        rows = min(most // threads, power_of_two(count))
    else:
        threads = min(most, row_threads(length, facts))
        rows = max(min(most // threads, power_of_two(count)), 1)
    parts = _parts(pattern, facts, ceil(count / rows), rows, threads) if may_split else 1
    return Sharing(rows, threads, is_across, parts, term_lanes(pattern, facts, threads * parts))


def _parts(pattern: BlockPattern, facts: GpuFacts, blocks: int, rows: int, threads: int) -> int:
    """Return the number of blocks that share each result; 1 if that would not pay off."""
    length = prod(pattern.extents[v] for v in pattern.reduce)
    idle = BLOCKS_A_CORE * facts.cores // max(blocks, 1)
    parts = min(idle, length // (threads * TERMS_A_PART), MOST_PARTS)
    if parts < 2:
        return 1
    return parts if rows * _row_time(pattern) * (1 - 1 / parts) > facts.start else 1


def _row_time(pattern: BlockPattern) -> float:
    """Return the cycles in which one block fetches the terms of a result."""
    length = prod(pattern.extents[v] for v in pattern.reduce)
    return length * term_bits(pattern) / BYTE / BLOCK_RATE


def better_apart(sch: Schedule, facts: GpuFacts) -> str | None:
    """Return why separate launches are estimated to beat one block per row; None if not."""
    saved, launches = 0.0, 0
    for block in sch.blocks():
        op = sch.block_op(block)
        pattern = match_block(op)
        if pattern is None or not op.is_reduction:
            continue
        sharing = choose_sharing(pattern, facts)
        launches += 1 if sharing.parts == 1 else 2
        count = prod(pattern.extents[v] for v in pattern.spatial)
        # With one block per row, the loads of adjacent rows are scattered.
        rounds = ceil(count / (BLOCKS_A_CORE * facts.cores))
        alone = rounds * _row_time(pattern) * (SCATTERED if sharing.is_across else 1.0)
        blocks = ceil(count / sharing.rows) * sharing.parts
        shared = ceil(blocks / (BLOCKS_A_CORE * facts.cores)) * sharing.rows / sharing.parts
        # If the row's elements are written, it is read once more.
        passes = 1 if not sch.consumers(block) else 2
        saved += passes * (alone - shared * _row_time(pattern))
    if saved > launches * facts.start:
        return "rows are few and long: launches for each step are estimated to take less time"
    return None


def row_threads(length: int, facts: GpuFacts) -> int:
    """Return the number of threads that share a row of `length` elements, with a few for each."""
    most = facts.block_threads(ceil(length / TERMS_A_THREAD))
    return max(min(most, power_of_two(length // TERMS_A_THREAD + 1) // 2), min(facts.warp, most))


def term_lanes(pattern: BlockPattern, facts: GpuFacts, threads: int) -> int:
    """Return the number of adjacent terms that a thread loads at once.

    These are whole vectors, if each thread has enough of them.
    """
    moving = [v for v in pattern.reduce if pattern.extents[v] > 1]
    if not moving or not any(term.is_unit(moving[-1]) for term in pattern.terms):
        return 1
    lanes = facts.lanes(element_bits(pattern.block), pattern.extents[moving[-1]])
    length = prod(pattern.extents[v] for v in pattern.reduce)
    return lanes if length >= lanes * threads else 1


def term_bits(pattern: BlockPattern) -> int:
    """Return the bits loaded for each term that are not reused by other results."""
    bits = [
        access_bits(term)
        for term in pattern.terms
        if all(term.uses(v) for v in pattern.spatial if pattern.extents[v] > 1)
    ]
    return sum(bits) or max(map(access_bits, pattern.terms), default=0)


def has_neighbouring_rows(pattern: BlockPattern) -> bool:
    """Whether the largest operand is contiguous along results rather than along terms."""
    heavy = max(pattern.terms, key=lambda term: _footprint(term, pattern), default=None)
    if heavy is None:
        return False
    moving = [v for v in pattern.variables if pattern.extents[v] > 1]
    # For a window, both may be contiguous.
    along = [pattern.extents[v] for v in moving if v in pattern.reduce and heavy.is_unit(v)]
    across = [pattern.extents[v] for v in moving if v in pattern.spatial and heavy.is_unit(v)]
    return max(across, default=0) > max(along, default=0)


def _footprint(term: StridedAccess, pattern: BlockPattern) -> int:
    return prod(extent for v, extent in enumerate(pattern.extents) if term.uses(v))


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is at least `number`."""
    return 1 << max(number - 1, 0).bit_length()
