"""Cost model for reductions that several threads share in a separate launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, prod

from tcopt.schedules.analysis.patterns import (
    BlockPattern,
    StridedAccess,
    access_bits,
    body_cost,
    element_bits,
    step_bytes,
)
from tcopt.schedules.rules.operands import BYTE
from tcopt.support.arithmetic.columns import Column, ceil_div, least, most, where
from tcopt.support.machines.thread_blocks import LaunchWork, ThreadBlocks

TERMS_A_THREAD = 4
"""Minimum number of terms of a sum per thread."""

LOADS_A_ROW = 2
"""Loads of a thread from a row that a block reduces, if there are many rows: measured on an H200,
more threads wait longer for each other, and fewer have too few loads in flight."""

TERMS_A_PART = 16
"""Minimum number of terms of each thread to divide a sum among several blocks."""

MOST_PARTS = 512
"""Maximum number of partial results of an element: a block combines them in a step or two."""

GAIN = 0.95
"""Another choice replaces the usual one if its estimated time is below this fraction of it."""

STEPS = 8
"""Maximum number of terms that a thread loads before it adds them."""

BLOCKS_A_CORE = 2
"""Blocks per core that keep memory accesses in flight while others synchronise their threads."""

NEIGHBOURS = 32
"""Adjacent results whose terms are loaded together: those of a warp, or a cache line."""


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


def choose_sharing(pattern: BlockPattern, facts: ThreadBlocks, may_split: bool = True) -> Sharing:
    """Choose how to share a reduction: as many threads as have enough work, with coalesced loads.

    More threads for each of fewer adjacent results avoid a second launch if that takes less time.

    Args:
        may_split: whether several blocks may share a result.
    """
    count = prod(pattern.extents[v] for v in pattern.spatial)
    length = prod(pattern.extents[v] for v in pattern.reduce)
    is_across = has_neighbouring_rows(pattern)
    most = facts.block_threads(max(count, 1) * ceil(length / TERMS_A_THREAD))
    wanted = min(max(ceil(facts.running / max(count, 1)), 1), ceil(length / TERMS_A_THREAD))
    if is_across:
        rows = min(power_of_two(count), NEIGHBOURS, most)
        threads = min(most // rows, power_of_two(wanted))
        rows = min(most // threads, power_of_two(count))
    else:
        threads = min(most, row_threads(length, facts))
        rows = max(min(most // threads, power_of_two(count)), 1)
    parts = _parts(pattern, facts, ceil(count / rows), rows, threads) if may_split else 1
    usual = Sharing(rows, threads, is_across, parts, term_lanes(pattern, facts, threads * parts))
    if not is_across or wanted == 1:
        return usual
    least_rows = max(facts.sector * BYTE // element_bits(pattern.block), 1)
    others = [
        Sharing(most // n, n, is_across, lanes=term_lanes(pattern, facts, n))
        for n in _doubled(threads, min(most // least_rows, length // TERMS_A_THREAD))
    ]
    return min([usual, *others], key=lambda each: _order(pattern, facts, each, usual))


def _doubled(first: int, most: int) -> Iterator[int]:
    """Yield larger numbers, each twice the one before."""
    while (first := 2 * first) <= most:
        yield first


def _order(pattern: BlockPattern, facts: ThreadBlocks, each: Sharing, usual: Sharing) -> float:
    """Return the cycles, somewhat fewer for the usual choice, as estimates are rough."""
    cycles = sharing_cycles(
        pattern, facts, rows=each.rows, threads=each.threads, parts=each.parts, lanes=each.lanes
    )
    return float(cycles) * (GAIN if each is usual else 1)


def _parts(pattern: BlockPattern, facts: ThreadBlocks, blocks: int, rows: int, threads: int) -> int:
    """Return the number of blocks that share each result; 1 if that would not pay off."""
    length = prod(pattern.extents[v] for v in pattern.reduce)
    idle = BLOCKS_A_CORE * facts.cores // max(blocks, 1)
    parts = min(idle, length // (threads * TERMS_A_PART), MOST_PARTS)
    if parts < 2:
        return 1
    lanes = term_lanes(pattern, facts, threads * parts)
    whole, divided = (
        sharing_cycles(pattern, facts, rows=rows, threads=threads, parts=each, lanes=lanes)
        for each in (1, parts)
    )
    return parts if divided < whole else 1


def sharing_cycles(
    pattern: BlockPattern,
    facts: ThreadBlocks,
    *,
    rows: Column,
    threads: Column,
    parts: Column = 1,
    lanes: Column = 1,
) -> Column:
    """Estimate the cycles of a reduction in a launch of its own, or two for several parts.

    Args:
        rows, threads, parts, lanes: as in `Sharing`.
    """
    count = prod(pattern.extents[v] for v in pattern.spatial)
    length = prod(pattern.extents[v] for v in pattern.reduce)
    size, is_across = term_bits(pattern) / BYTE, has_neighbouring_rows(pattern)
    step = neighbour_step(pattern, pattern.spatial if is_across else pattern.reduce)
    # Adjacent rows or terms are few.
    step = most(step, facts.sector / (rows if is_across else threads))
    blocks = ceil_div(count, rows) * parts
    loaded = length / parts * rows * size
    work = LaunchWork(
        blocks=blocks,
        threads=rows * threads,
        operations=length / parts / threads * body_cost(pattern.block),
        barriers=where(threads > 1, 1, 0),
        far=loaded * facts.scattered(step, size),
        in_flight=least(lanes * facts.in_flight, STEPS) * size,
        moved=blocks * loaded,
    )
    return facts.launch(work).total + facts.start * where(parts > 1, 2, 1)


def row_threads(length: int, facts: ThreadBlocks, count: int | None = None, lanes: int = 1) -> int:
    """Return the number of threads that share a row of `length` elements, with a few for each.

    Args:
        count: number of rows; if cores have one at most, a block may have all threads of a core.
        lanes: elements that a thread loads at once.
    """
    is_alone = count is not None and count <= facts.cores
    terms = TERMS_A_THREAD if is_alone else max(TERMS_A_THREAD, LOADS_A_ROW * lanes)
    most = facts.max_threads if is_alone else facts.block_threads(ceil(length / terms))
    return max(min(most, power_of_two(length // terms + 1) // 2), min(facts.warp, most))


def term_lanes(pattern: BlockPattern, facts: ThreadBlocks, threads: int) -> int:
    """Return the number of adjacent terms that a thread loads at once.

    These are whole vectors, as wide as each thread has enough terms for.
    """
    moving = [v for v in pattern.reduce if pattern.extents[v] > 1]
    if not moving or not any(term.is_unit(moving[-1]) for term in pattern.terms):
        return 1
    lanes = facts.lanes(element_bits(pattern.block), pattern.extents[moving[-1]])
    length = prod(pattern.extents[v] for v in pattern.reduce)
    while lanes > facts.words and length < lanes * threads:
        lanes //= 2
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
    heavy = _largest(pattern)
    if heavy is None:
        return False
    moving = [v for v in pattern.variables if pattern.extents[v] > 1]
    # For a window, both may be contiguous.
    along = [pattern.extents[v] for v in moving if v in pattern.reduce and heavy.is_unit(v)]
    across = [pattern.extents[v] for v in moving if v in pattern.spatial and heavy.is_unit(v)]
    return max(across, default=0) > max(along, default=0)


def neighbour_step(pattern: BlockPattern, variables: Sequence[int]) -> int:
    """Return the bytes between loads of the largest operand by threads that are adjacent along
    results or terms; 0 if these do not move it."""
    heavy = _largest(pattern)
    if heavy is None:
        return 0
    steps = [abs(step_bytes(heavy, v)) for v in variables if pattern.extents[v] > 1]
    return min(filter(None, steps), default=0)


def _largest(pattern: BlockPattern) -> StridedAccess | None:
    """Return the operand with most elements."""

    def size(term: StridedAccess) -> int:
        return prod(extent for v, extent in enumerate(pattern.extents) if term.uses(v))

    return max(pattern.terms, key=size, default=None)


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is at least `number`."""
    return 1 << max(number - 1, 0).bit_length()
