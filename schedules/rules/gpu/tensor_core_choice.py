"""Cost model for the tile sizes of a contraction on tensor cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.intrinsics import Intrinsic
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.patterns import BlockPattern, access_bits
from tcopt.schedules.rules.gpu.tensor_core_roles import Factor, WarpRoles, dim_alone, parts_of
from tcopt.schedules.rules.gpu.warp_copy import with_spare_places
from tcopt.schedules.rules.operands import BYTE
from tcopt.support.arithmetic.columns import ceil_div, least, most, where
from tcopt.support.machines.thread_blocks import (
    ADDRESSES,
    WORD,
    WORD_BITS,
    LaunchWork,
    ThreadBlocks,
)

SPACE = 8
"""Padding of rows of shared tiles in elements: the row stride is an odd multiple of 16 bytes, so
that eight rows are in different banks."""

SHARED_STORE = 2
"""Loads of single elements that take as long as a load that is stored by itself."""

MOST_HELD = 16
"""Maximum words that a thread holds in registers before storing them to a second buffer."""

FRAGMENTS = ((1, 2, 4), (1, 2, 4), (1, 2, 4, 8))
WARPS = (1, 2, 4, 8)
STEPS = (1, 2, 4)
STAGES = (1, 2, 3, 4)
"""Numbers of parts of the reduction that shared memory holds at once."""

OVERLAP = 4
"""One in `OVERLAP` cycles of products, or of loads from shared memory if these take less time, is
not hidden by the other."""

PIPELINED = 8
"""Products of matrices that a warp has in flight."""

PARTITIONS = 4
"""Partitions of a core, with a fourth of its matrix units each; a warp runs in one of them."""

INSTRUCTION = 0.5
"""Multiply-adds of a lane that take as long as issuing a product."""

PART = 32
"""Multiply-adds of a lane that take as long as the loop over parts: addresses, waits, a branch."""

ISSUE = 0.5
"""Multiply-adds that take as long as issuing the asynchronous copy of a word."""


@dataclass(frozen=True)
class WarpTile:
    """The tile that a block computes, along rows, spans and columns.

    Attributes:
        mma: the intrinsic for the matrix product.
        fragments: matrices of sums of a warp; each span has separate ones.
        warps: warps of the block.
        steps: products along the depth that are fetched at a time.
        stages: parts that shared memory holds at once: all but one are fetched while one is used.
    """

    mma: Intrinsic
    fragments: tuple[int, int, int]
    warps: tuple[int, int, int]
    steps: int
    stages: int = 1

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and depth of a product."""
        (rows, columns), (_, depth) = self.mma.operands[0].shape, self.mma.operands[1].shape
        return rows, columns, depth

    @cached_property
    def of_warp(self) -> tuple[int, int, int]:
        """Rows, spans and columns of a warp."""
        rows, columns, _ = self.shape
        return self.fragments[0] * rows, self.fragments[1], self.fragments[2] * columns

    @cached_property
    def of_block(self) -> tuple[int, int, int]:
        """Rows, spans and columns of a block."""
        rows, spans, columns = (n * w for n, w in zip(self.of_warp, self.warps, strict=True))
        return rows, spans, columns

    @property
    def depth(self) -> int:
        """Terms along the depth that are fetched at a time."""
        return self.steps * self.shape[2]

    def __str__(self) -> str:
        rows, spans, columns = self.of_block
        ahead = f", {self.stages} stages" if self.stages > 1 else ""
        return (
            f"{rows} x {spans} x {columns} a block of {prod(self.warps)} warps, "
            f"{self.depth} steps at a time{ahead}, by {self.mma.name}"
        )


class _Fetched(NamedTuple):
    """The part of an operand that a block fetches at a time.

    Attributes:
        factor: the operand.
        reach: extents in shared memory.
        copied: extents that are copied.
        lanes: adjacent elements that are copied at once.
        is_async: whether the copies are asynchronous.
        words: words that are fetched; a separately copied element counts as one.
    """

    factor: Factor
    reach: Sequence[int]
    copied: Sequence[int]
    lanes: int
    is_async: bool
    words: float


class WarpTileCosts:
    """Cost model for tiles of a contraction."""

    def __init__(
        self, pattern: BlockPattern, roles: WarpRoles, facts: ThreadBlocks, parts: int = 1
    ):
        self._pattern, self._roles, self._facts = pattern, roles, facts
        self._parts = parts
        self._inner = [v for v in pattern.reduce if v != roles.depth]
        self._places = prod(pattern.extents[v] for v in self._inner)
        self._factors = roles.left, roles.right
        self._depth = pattern.extents[roles.depth] // parts
        variables = parts_of(pattern)
        self._deep = [dim_alone(each.term, roles.depth, variables) for each in self._factors]
        self._fetches: dict[object, Sequence[_Fetched]] = {}
        self._bytes: dict[object, tuple[int, int]] = {}
        tiled = {roles.rows, roles.columns, roles.spans}
        self._blocks = parts * prod(pattern.extents[v] for v in pattern.spatial if v not in tiled)

    def candidates(self, mmas: Sequence[Intrinsic]) -> Iterator[WarpTile]:
        """Yield tiles that fit threads and registers, and whose warps all have work."""
        extents, roles = self._pattern.extents, self._roles
        spans = 1 if roles.spans is None else extents[roles.spans]
        whole = extents[roles.rows], spans, extents[roles.columns]
        for mma in mmas:
            unit = WarpTile(mma, (1, 1, 1), (1, 1, 1), 1)
            limits = [ceil(n / size) for n, size in zip(whole, unit.of_warp, strict=True)]
            steps = _up_to(ceil(self._depth / unit.depth), STEPS)
            if self._parts > 1:
                # Elements beyond the end of a part belong to the next part.
                steps = [step for step in steps if self._depth % (step * unit.depth) == 0]
            for fragments in _boxes(limits, FRAGMENTS):
                if self.values(WarpTile(mma, fragments, (1, 1, 1), 1)) > self._most_values:
                    continue
                rest = [ceil(n / f) for n, f in zip(limits, fragments, strict=True)]
                for warps in _boxes(rest, (WARPS, WARPS, WARPS)):
                    if prod(warps) * self._facts.warp <= self._facts.usual_threads:
                        for step, stages in product(steps, self.stages):
                            yield WarpTile(mma, fragments, warps, step, stages)

    @property
    def stages(self) -> tuple[int, ...]:
        """Candidate numbers of stages."""
        return STAGES if self._facts.copies_async else STAGES[:2]

    @property
    def _most_values(self) -> int:
        """Maximum values of a thread, leaving room for addresses."""
        return self._facts.registers - ADDRESSES

    def values(self, tile: WarpTile) -> int:
        """Return the registers of a thread for sums and for the matrices that are multiplied."""
        height, width, depth = tile.shape
        down, along, across = tile.fragments
        halves = (down * height + along * across * width) * depth // self._facts.warp
        return prod(tile.fragments) * height * width // self._facts.warp + halves // 2

    def fits(self, tile: WarpTile) -> bool:
        """Whether a tile fits shared memory, and its sums and prefetched elements the registers."""
        if self.values(tile) > self._most_values:
            return False
        if tile.stages > 1:
            threads = prod(tile.warps) * self._facts.warp
            if self._held_words(tile) / threads > MOST_HELD:
                return False
            if tile.depth * (tile.stages - 1) >= self._depth:
                return False
        return self.shared_bytes(tile) <= self._facts.most_shared

    def time(self, tile: WarpTile) -> float:
        """Estimate the cycles of the launch."""
        return float(self.times([tile])[0])

    def times(self, tiles: Sequence[WarpTile]) -> NDArray[np.float64]:
        """Estimate the cycles of the launch with each of some tiles."""
        facts, lanes = self._facts, self._facts.warp

        def column(value: Callable[[WarpTile], float]) -> NDArray[np.float64]:
            return np.fromiter(map(value, tiles), np.float64, len(tiles))

        height, width, depth = np.array([tile.shape for tile in tiles], np.float64).T
        down, along, across = np.array([tile.fragments for tile in tiles], np.float64).T
        warps, stages = column(lambda tile: prod(tile.warps)), column(lambda tile: tile.stages)
        steps = column(lambda tile: tile.steps)
        threads, matrices = warps * lanes, down * along * across
        parts, terms = ceil_div(self._depth, steps * depth), steps * self._places
        # Cost of a product per lane, and of the words that each lane loads of both factors.
        product = height * width * depth / lanes / facts.matrix_rate
        products = matrices * (product + INSTRUCTION)
        words = (down * height + along * across * width) * depth / lanes / 2
        loads = words * WORD * facts.multiply_adds / facts.near_rate
        longer, shorter = most(products, loads), least(products, loads)
        fetched, held = column(self._fetched_words), column(self._held_words)
        # Asynchronous copies take bandwidth, and hardly any time of the threads.
        started = where(stages > 1, fetched - held, 0.0)
        # Loads of a thread: of single elements, which share index arithmetic and stores, and of
        # vectors that are not copied asynchronously.
        copies = parts * (held / SHARED_STORE + (fetched - held - started) / facts.words) / threads
        blocks, values, shared = (
            column(each) for each in (self.blocks, self.values, self.shared_bytes)
        )
        resident = facts.resident(blocks, threads, values, shared)
        independent = most(matrices / PIPELINED, 1)
        idle = ceil_div(warps * resident, PARTITIONS) * PARTITIONS / (warps * resident)
        idle = idle / least(facts.exposed(threads * resident * independent), idle)
        multiplying = terms * (longer + shorter / OVERLAP) * idle
        work = LaunchWork(
            blocks=blocks,
            threads=threads,
            operations=parts * (multiplying + started * ISSUE / threads + PART),
            copies=copies,
            far=parts * started * WORD,
            in_flight=most(stages - 1, 1) * fetched * WORD / threads,
            # Threads wait twice for each part, and once if other parts are in other buffers.
            barriers=parts * where(stages > 1, 0.5, 1.0),
            values=values,
            shared=shared,
            independent=independent,
        )
        # While a block waits for its first part, loads elements and stores results, others compute.
        alone = facts.latency + (fetched * WORD + column(self._stored_bytes)) / facts.far_rate
        alone = alone + copies * facts.copy_step / facts.in_flight
        # Without other buffers, the loads of each part wait until the previous one is used.
        alone = alone + where(stages == 1, facts.latency * (parts - 1), 0)
        cycles = facts.launch(work)
        # Parts in flight even out the times that copies take.
        shown = least(cycles.computing, cycles.loading) / (2 * stages)
        return np.asarray(cycles.total + shown + facts.rounds(blocks) * alone / resident)

    def blocks(self, tile: WarpTile) -> int:
        """Return the number of blocks of the launch."""
        extents, roles = self._pattern.extents, self._roles
        rows, spans, columns = tile.of_block
        blocks = self._blocks * ceil(extents[roles.rows] / rows)
        blocks *= ceil(extents[roles.columns] / columns)
        return blocks if roles.spans is None else blocks * ceil(extents[roles.spans] / spans)

    def shared_bytes(self, tile: WarpTile) -> int:
        """Return the shared memory of a block in bytes."""
        copied, held = self._slot_bytes(tile)
        return tile.stages * copied + min(tile.stages, 2) * held

    def _slot_bytes(self, tile: WarpTile) -> tuple[int, int]:
        """Return the bytes of a part of the operands: copied asynchronously, and by registers."""
        warps = prod(tile.warps)
        key = tile.of_block, tile.depth, warps
        if key not in self._bytes:
            total = [0, 0]
            for part in self._fetched(tile):
                total[not part.is_async] += self._bytes_of(part, warps)
            self._bytes[key] = total[0], total[1]
        return self._bytes[key]

    def _bytes_of(self, part: _Fetched, warps: int) -> int:
        factor, reach, copied = part.factor, list(part.reach), part.copied
        moving = [dim for dim, size in enumerate(copied) if size > 1]
        extents = [copied[dim] for dim in moving]
        last = factor.order[-1]
        deep = moving.index(last) if not factor.in_order and last in moving else None
        whole = with_spare_places(extents, warps, self._facts.warp, part.lanes, deep)
        for dim, extent in zip(moving, whole, strict=True):
            reach[dim] = max(reach[dim], extent)
        row = reach[last]
        row += (SPACE - row) % (2 * SPACE)
        return prod(reach) // reach[last] * row * access_bits(factor.term) // BYTE

    def _held_words(self, tile: WarpTile) -> float:
        """Return the words that pass through registers of a block's threads for a part."""
        return sum(part.words for part in self._fetched(tile) if not part.is_async)

    def _fetched_words(self, tile: WarpTile) -> float:
        """Return the words that a block fetches for a part of the sums.

        A separately copied element counts as one word.
        """
        return sum(part.words for part in self._fetched(tile))

    def _fetched(self, tile: WarpTile) -> Sequence[_Fetched]:
        """Return what a block fetches of each operand for a part of the sums."""
        key = tile.of_block, tile.depth
        if key not in self._fetches:
            sizes = self._sizes(tile)
            each = zip(self._factors, self._deep, strict=True)
            self._fetches[key] = [self._fetch(factor, deep, sizes) for factor, deep in each]
        return self._fetches[key]

    def _fetch(self, factor: Factor, deep: int | None, sizes: Mapping[int, int]) -> _Fetched:
        reach, facts = factor.reach(sizes), self._facts
        # Elements beyond the end of the operand are not copied, except along the depth.
        ends = enumerate(zip(reach, buffer_shape(factor.term.buffer), strict=True))
        copied = [n if dim == deep else min(n, end) for dim, (n, end) in ends]
        # Copies are asynchronous in whole words.
        whole = factor.lanes(reach[-1], facts) * access_bits(factor.term) >= WORD_BITS
        words = factor.words(sizes, facts)
        lanes = factor.lanes(copied[-1], facts)
        return _Fetched(factor, reach, copied, lanes, facts.copies_async and whole, words)

    def _stored_bytes(self, tile: WarpTile) -> int:
        """Return the bytes of a block's results, which have at most one word."""
        return prod(tile.of_block) * WORD

    def _sizes(self, tile: WarpTile) -> dict[int, int]:
        """Return the size of a block along variables in a part of the reduction."""
        roles, extents = self._roles, self._pattern.extents
        rows, spans, columns = tile.of_block
        sizes = {roles.rows: rows, roles.columns: columns, roles.depth: tile.depth}
        if roles.spans is not None:
            sizes[roles.spans] = spans
        return sizes | {v: extents[v] for v in self._inner}


def _up_to(extent: int, wanted: Sequence[int]) -> list[int]:
    """Return the sizes that are not larger than an extent."""
    return [size for size in wanted if size <= extent]


def _boxes(
    limits: Sequence[int], wanted: Sequence[Sequence[int]]
) -> Iterator[tuple[int, int, int]]:
    """Return all combinations of sizes that are within the limit of each dimension."""
    down, along, across = map(_up_to, limits, wanted)
    return product(down, along, across)


def choose_warp_tile(
    pattern: BlockPattern,
    roles: WarpRoles,
    mmas: Sequence[Intrinsic],
    facts: ThreadBlocks,
    parts: int = 1,
) -> tuple[WarpTile, float] | None:
    """Return the tile with the lowest estimated time, and that time; fewer warps win ties.

    Args:
        parts: parts of each sum, which separate blocks compute (`split_sum.py`).
    """
    costs = WarpTileCosts(pattern, roles, facts, parts)
    tiles = [tile for tile in costs.candidates(mmas) if costs.fits(tile)]
    if not tiles:
        return None
    times = costs.times(tiles)
    warps = np.array([prod(tile.warps) for tile in tiles])
    best = int(np.lexsort((warps, times))[0])
    return tiles[best], float(times[best])
