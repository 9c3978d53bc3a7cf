"""How threads share a reduction that has a launch of its own: what each choice costs."""

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
"""Terms of a sum that make it worth another thread."""

TERMS_A_PART = 16
"""Terms of each thread that make it worth another block."""

MOST_PARTS = 512
"""Partial results of one element: what a block combines in a step or two."""

BLOCKS_A_CORE = 2
"""Blocks that keep a core's memory accesses going while others wait for their threads."""

LAUNCH = 4000.0
"""Cycles that one more launch takes, roughly."""

BLOCK_RATE = 8.0
"""Bytes that one block fetches in a cycle, roughly: a thread has a few loads on their way."""

NEIGHBOURS = 32
"""Results side by side whose terms are loaded at once: those of a warp, or a line of a cache."""

SCATTERED = 8.0
"""How much longer it takes to load single words from different lines of memory."""

BYTE = 8
"""Bits of one."""


@dataclass(frozen=True)
class Sharing:
    """How threads share a reduction.

    Attributes:
        rows: results of a block.
        threads: of each result.
        is_across: whether neighbouring threads have neighbouring results, or terms of one.
        parts: blocks that reduce a share of each result, which another launch combines.
        lanes: neighbouring terms that a thread loads at once.
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
    """How to share a reduction: by as many threads as it has work for, whose loads lie beside
    each other.

    Args:
        may_split: whether blocks may share a result.
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
    """Blocks that share each result, where that saves more than another launch costs."""
    length = prod(pattern.extents[v] for v in pattern.reduce)
    idle = BLOCKS_A_CORE * facts.cores // max(blocks, 1)
    parts = min(idle, length // (threads * TERMS_A_PART), MOST_PARTS)
    if parts < 2:
        return 1
    return parts if rows * _row_time(pattern) * (1 - 1 / parts) > LAUNCH else 1


def _row_time(pattern: BlockPattern) -> float:
    """Cycles that one block takes to fetch the terms of a result."""
    length = prod(pattern.extents[v] for v in pattern.reduce)
    return length * term_bits(pattern) / BYTE / BLOCK_RATE


def better_apart(sch: Schedule, facts: GpuFacts) -> str | None:
    """Why launches for each step are estimated to take less time than a block for each row; None
    if they are not."""
    saved, launches = 0.0, 0
    for block in sch.blocks():
        op = sch.block_op(block)
        pattern = match_block(op)
        if pattern is None or not op.is_reduction:
            continue
        sharing = choose_sharing(pattern, facts)
        launches += 1 if sharing.parts == 1 else 2
        count = prod(pattern.extents[v] for v in pattern.spatial)
        # What a block for each row takes: rows beside each other are scattered for it.
        rounds = ceil(count / (BLOCKS_A_CORE * facts.cores))
        alone = rounds * _row_time(pattern) * (SCATTERED if sharing.is_across else 1.0)
        blocks = ceil(count / sharing.rows) * sharing.parts
        shared = ceil(blocks / (BLOCKS_A_CORE * facts.cores)) * sharing.rows / sharing.parts
        # The row is gone through once more where its elements are written.
        passes = 1 if not sch.consumers(block) else 2
        saved += passes * (alone - shared * _row_time(pattern))
    if saved > launches * LAUNCH:
        return "rows are few and long: launches for each step are estimated to take less time"
    return None


def row_threads(length: int, facts: GpuFacts) -> int:
    """Threads that share a row of so many elements: as many as have a few each."""
    most = facts.block_threads(ceil(length / TERMS_A_THREAD))
    return max(min(most, power_of_two(length // TERMS_A_THREAD + 1) // 2), min(facts.warp, most))


def term_lanes(pattern: BlockPattern, facts: GpuFacts, threads: int) -> int:
    """Neighbouring terms that a thread loads at once: whole vectors of what lies side by side, of
    which each thread has a few."""
    moving = [v for v in pattern.reduce if pattern.extents[v] > 1]
    if not moving or not any(term.is_unit(moving[-1]) for term in pattern.terms):
        return 1
    lanes = facts.lanes(element_bits(pattern.block), pattern.extents[moving[-1]])
    length = prod(pattern.extents[v] for v in pattern.reduce)
    return lanes if length >= lanes * threads else 1


def term_bits(pattern: BlockPattern) -> int:
    """What is loaded for each term that no other result has a use for."""
    bits = [
        access_bits(term)
        for term in pattern.terms
        if all(term.uses(v) for v in pattern.spatial if pattern.extents[v] > 1)
    ]
    return sum(bits) or max(map(access_bits, pattern.terms), default=0)


def has_neighbouring_rows(pattern: BlockPattern) -> bool:
    """Whether what is loaded for neighbouring results lies side by side, and what is loaded for
    one of them does not."""
    heavy = max(pattern.terms, key=lambda term: _footprint(term, pattern), default=None)
    if heavy is None:
        return False
    moving = [v for v in pattern.variables if pattern.extents[v] > 1]
    # Along a window both lie side by side.
    along = [pattern.extents[v] for v in moving if v in pattern.reduce and heavy.is_unit(v)]
    across = [pattern.extents[v] for v in moving if v in pattern.spatial and heavy.is_unit(v)]
    return max(across, default=0) > max(along, default=0)


def _footprint(term: StridedAccess, pattern: BlockPattern) -> int:
    return prod(extent for v, extent in enumerate(pattern.extents) if term.uses(v))


def power_of_two(number: int) -> int:
    """The smallest power of two that is no smaller."""
    return 1 << max(number - 1, 0).bit_length()
