"""Cost model for the tile sizes of a contraction with operands in shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.schedules.analysis.dots import Dot, steps_of
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, access_bits
from tcopt.schedules.rules.gpu.register_tile import column_lanes
from tcopt.schedules.rules.operands import BYTE
from tcopt.support.arithmetic.columns import Column, ceil_div, least, most, where
from tcopt.support.machines.thread_blocks import WORD, LaunchWork, ThreadBlocks

STEPS = (4, 8, 16, 32)
"""Candidate numbers of steps along the longest reduce variable to fetch at a time; a group of terms
of a dot product is one step."""


UNPAIRED = 1.5
"""Slowdown of loads from shared memory if the threads of a warp that read the same address are not
adjacent in pairs: in blocks whose width is not a power of two."""

BANK_SPACING = (8, 4)
"""Spacing in words of rows that the threads of a warp read together: a multiple of the first number
plus the second. The rows of eight threads, or of four with two rows each, are then in different
ones of 32 banks, and vectors of four words stay aligned."""


@dataclass(frozen=True)
class SharedTileRoles:
    """Roles of the variables, by position.

    Attributes:
        rows, columns: as in `register_tile`.
        spans: a second variable that moves the operand of columns; None if there is none.
        depth: the longest variable of the reduction.
        lane: for dot products of channels in short blocks, the variable that is contiguous in the
            output, all of which one thread computes; None otherwise.
        dot: the hardware dot product.
    """

    rows: int
    columns: int
    spans: int | None
    depth: int
    lane: int | None = None
    dot: Dot | None = None


@dataclass(frozen=True)
class SharedTile:
    """The tile that a block computes; sizes are integers, or NumPy arrays for many tiles.

    Attributes:
        rows, spans, columns: size of one thread's tile.
        lanes: lanes of a vector; they divide `columns`.
        down, across: threads along rows and along columns.
        steps: steps along the longest reduce variable that are fetched at a time.
        results: adjacent results of a thread at each of its rows, spans and columns.
    """

    rows: Column
    spans: Column
    columns: Column
    lanes: int
    down: Column
    across: Column
    steps: Column
    results: int = 1

    @property
    def threads(self) -> Column:
        return self.down * self.across

    @property
    def sums(self) -> Column:
        return self.rows * self.spans * self.columns * self.results

    def has_rows_in_warps(self, warp: int) -> Column:
        """Whether the threads of a warp read several rows of an operand at a time."""
        return (self.down > 1) & (self.across < warp)

    def __str__(self) -> str:
        return (
            f"{self.rows * self.down} x {self.spans} x {self.columns * self.across} a block of "
            f"{self.down} x {self.across} threads, {self.steps} steps at a time"
        )


def choose_tile(
    pattern: BlockPattern, roles: SharedTileRoles, facts: ThreadBlocks, parts: int = 1
) -> tuple[SharedTile, float] | None:
    """Return the tile with the lowest estimated time, and that time.

    Ties are broken by more sums, then by more threads.

    Args:
        parts: parts of each sum, which separate blocks compute (`split_sum.py`).
    """
    tiles = list(candidate_tiles(pattern, roles, facts, parts))
    if not tiles:
        return None
    sizes = [(t.rows, t.spans, t.columns, t.down, t.across, t.steps) for t in tiles]
    rows, spans, columns, down, across, steps = np.array(sizes).T
    one = tiles[0]
    many = SharedTile(rows, spans, columns, one.lanes, down, across, steps, one.results)
    costs = TileCosts(pattern, roles, facts, parts)
    shared = costs.shared_bytes(many)
    fitting = np.flatnonzero(shared <= facts.shared)
    if not fitting.size:
        return None
    time = np.broadcast_to(costs.time(many), len(tiles))
    keys = [each[fitting] for each in (-many.threads, -many.sums, time)]
    best = int(fitting[np.lexsort(keys)[0]])
    return tiles[best], float(time[best])


def candidate_tiles(
    pattern: BlockPattern, roles: SharedTileRoles, facts: ThreadBlocks, parts: int = 1
) -> Iterator[SharedTile]:
    """Yield tiles whose threads fit a block and whose sums fit the registers."""
    extents = pattern.extents
    if roles.lane is None:
        lanes, results = column_lanes(pattern, roles.columns, facts, roles.dot), 1
        widths = {lanes, 2 * lanes if lanes > 1 else 1}
    else:
        lanes, results, widths = 1, extents[roles.lane], {1, 2, 4}
    width, height, depth = (extents[v] for v in (roles.columns, roles.rows, roles.depth))
    depth = ceil(depth / parts)
    limit = facts.usual_threads
    spans = [1] if roles.spans is None else _sizes(extents[roles.spans], (1, 2, 4, 7))
    dot = roles.dot
    group = dot.group if dot is not None and dot.variable == roles.depth else 1
    wanted = tuple(group * each for each in STEPS)
    steps = [depth] if depth <= min(wanted) else _sizes(depth, wanted)
    if group > 1:
        # Groups are fetched as words if all parts have the same size.
        steps = [each for each in steps if depth % each == 0] or steps
    for columns in sorted(widths):
        for across in _sizes(ceil(width / columns), (4, 7, 8, 14, 16, 28, 32)):
            for rows in _sizes(height, (1, 2, 4, 8)):
                for down in _sizes(ceil(height / rows), (1, 2, 4, 8, 16, 32)):
                    for span in spans:
                        sums = rows * span * columns * results
                        if down * across > limit or sums > facts.accumulators:
                            continue
                        for step in steps:
                            yield SharedTile(
                                rows, span, columns, lanes, down, across, step, results
                            )


def _sizes(extent: int, wanted: tuple[int, ...]) -> list[int]:
    """Return the sizes that are not larger than an extent; the extent if all are larger."""
    return [size for size in wanted if size <= extent] or [extent]


class TileCosts:
    """Cost model for tiles of a contraction; precomputes what all tiles have in common.

    Attributes:
        parts: parts of each sum.
    """

    def __init__(
        self, pattern: BlockPattern, roles: SharedTileRoles, facts: ThreadBlocks, parts: int = 1
    ):
        self._facts, self.parts = facts, parts
        extents, reduce = list(pattern.extents), pattern.reduce
        extents[roles.depth] = ceil(extents[roles.depth] / parts)
        self._varied = [roles.rows, roles.columns, roles.depth]
        if roles.spans is not None:
            self._varied.append(roles.spans)
        whole = {*reduce, *([] if roles.lane is None else [roles.lane])}
        fixed = [
            extent if v in whole and v not in self._varied else 1
            for v, extent in enumerate(extents)
        ]
        self._footprints = [
            _Footprint(term, fixed, self._varied, roles.dot) for term in pattern.terms
        ]
        self._bits = [access_bits(term) for term in pattern.terms]
        self._has_adjacent_terms = any(
            not term.uses(roles.columns) and term.is_unit(roles.depth) for term in pattern.terms
        )
        self._sizes = [extents[v] for v in self._varied]
        self._is_reduced = [v in reduce for v in self._varied]
        self._is_dot = roles.dot is not None
        group = 1 if roles.dot is None else roles.dot.group
        self._terms = prod(fixed[v] for v in reduce) / group
        # Variables that do not move the result are guards.
        others = (v for v in pattern.spatial if v not in self._varied and v not in whole)
        self._blocks = parts * prod(extents[v] for v in others if pattern.store.uses(v))

    def copies(self, tile: SharedTile) -> Column:
        """Return the loads of a block that fetch a part of the reduction."""
        sizes = self._tile_sizes(tile)
        total: Column = 0
        for footprint, bits in zip(self._footprints, self._bits, strict=True):
            elements, width = footprint.elements(sizes), footprint.width(sizes)
            lanes = self._facts.lanes(bits)
            whole = (width % lanes == 0) & (footprint.row_extent % width == 0)
            is_vector = whole & (elements >= lanes * tile.threads)
            total = total + elements / where(is_vector, lanes, 1)
        return total

    def shared_bytes(self, tile: SharedTile) -> Column:
        """Return an upper bound on a block's shared memory in bytes."""
        sizes = self._tile_sizes(tile)
        each = list(zip(self._footprints, self._bits, strict=True))
        fetched = sum(footprint.elements(sizes) * (bits // BYTE) for footprint, bits in each)
        # In the last iteration of fetching, some threads may write beyond the end.
        spare = tile.threads * sum(bits // BYTE for bits in self._bits)
        spaced = tile.rows * tile.down * BANK_SPACING[0] * WORD
        spare = spare + where(tile.has_rows_in_warps(self._facts.warp), spaced, 0)
        if self._is_dot:
            # Threads fetch whole words, and those beyond the end need an additional row.
            spare = spare + sum(
                most(tile.threads * WORD, footprint.row(sizes) * (bits // BYTE))
                for footprint, bits in each
            )
        return fetched + spare

    def blocks(self, tile: SharedTile) -> Column:
        """Return the number of blocks of the launch."""
        sizes = zip(self._sizes, self._tile_sizes(tile), self._is_reduced, strict=False)
        count: Column = self._blocks
        for extent, size, is_reduced in sizes:
            if not is_reduced:
                count = count * ceil_div(extent, size)
        return count

    def time(self, tile: SharedTile) -> Column:
        """Estimate the cycles of the launch."""
        facts = self._facts
        terms: Column = self._terms
        parts: Column = 1
        for extent, size, is_reduced in zip(
            self._sizes, self._tile_sizes(tile), self._is_reduced, strict=False
        ):
            if is_reduced:
                terms = terms * size
                parts = parts * ceil_div(extent, size)
        across = tile.spans * tile.columns / tile.lanes
        loads = tile.rows + across
        # Terms of a row that are adjacent are loaded as vectors.
        whole = self._has_adjacent_terms & (tile.steps % facts.words == 0)
        near = tile.rows / where(whole, facts.words, 1) + across
        near = near * where(tile.across & (tile.across - 1) == 0, 1.0, UNPAIRED)
        copies = parts * self.copies(tile) / tile.threads
        work = LaunchWork(
            blocks=self.blocks(tile),
            threads=tile.threads,
            operations=parts * terms * tile.sums,
            near_loads=parts * terms * near,
            copies=copies,
            barriers=parts,
            values=tile.sums - (-loads // 1),
            shared=self.shared_bytes(tile),
            chain=parts * terms * (tile.sums + near) * facts.step + copies * facts.copy_step,
        )
        return facts.launch(work).total

    def _tile_sizes(self, tile: SharedTile) -> tuple[Column, Column, Column, Column]:
        """Return the size of a block along rows, columns, depth and spans, per part of the sum."""
        return tile.rows * tile.down, tile.columns * tile.across, tile.steps, tile.spans


class _Footprint:
    """Footprint of an operand in a block, for any sizes of some variables.

    Args:
        fixed: size of the block along each variable, 1 for those that vary.
        dot: the hardware dot product, for whose groups the operand may be stored.
    """

    def __init__(
        self, term: StridedAccess, fixed: Sequence[int], varied: Sequence[int], dot: Dot | None
    ):
        self._whole = 1
        self._dims: list[tuple[int, int, list[tuple[int, int, int]]]] = []
        self._moved: list[tuple[int, int, list[tuple[int, int, int]]]] = []
        rows = [steps_of(term, v, dot) for v in range(len(fixed))]
        units = [1] * len(rows)
        is_grouped = rows != list(term.steps)
        if is_grouped and dot is not None:
            units[dot.variable] = dot.group
        shape = buffer_shape(term.buffer)
        for dim, extent in enumerate(shape):
            steps = [0 if row is None else abs(row[dim]) for row in rows]
            counts = [ceil(size / unit) for size, unit in zip(fixed, units, strict=True)]
            reach = 1 + sum(s * (count - 1) for s, count in zip(steps, counts, strict=True))
            if is_grouped and dim == len(shape) - 1:
                reach = extent  # All of a group is read.
            moving = [(place, steps[v], units[v]) for place, v in enumerate(varied) if steps[v]]
            self._dims.append((extent, reach, moving))
            if moving:
                self._moved.append((extent, reach, moving))
            else:
                self._whole *= min(reach, extent)

    @property
    def row_extent(self) -> int:
        """Elements of the operand's rows."""
        return self._dims[-1][0] if self._dims else 1

    def width(self, sizes: Sequence[Column]) -> Column:
        """Return the number of elements that are copied of a row."""
        if not self._dims:
            return 1
        extent, reach, moving = self._dims[-1]
        return least(_reach(reach, moving, sizes), extent)

    def elements(self, sizes: Sequence[Column]) -> Column:
        """Return the number of elements."""
        total: Column = self._whole
        for extent, reach, moving in self._moved:
            total = total * least(_reach(reach, moving, sizes), extent)
        return total

    def row(self, sizes: Sequence[Column]) -> Column:
        """Return the number of elements at one index of the outermost dimension of the copy."""
        total, found = self.elements(sizes), 1
        for extent, reach, moving in reversed(self._dims):
            places = least(_reach(reach, moving, sizes), extent)
            found = where(places > 1, total // places, found)
        return found


def _reach(reach: int, moving: Sequence[tuple[int, int, int]], sizes: Sequence[Column]) -> Column:
    """Return the range of the indices of a dimension."""
    total: Column = reach
    for place, step, unit in moving:
        total = total + step * (ceil_div(sizes[place], unit) - 1)
    return total
