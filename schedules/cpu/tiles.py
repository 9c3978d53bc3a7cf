"""Register tiles: how many accumulators a contraction keeps in registers, and in what order
tiles follow each other.

A tile holds `spans x rows x vectors` accumulators. Rows lie along one variable, spans along
the next outer one, so that a tile may cover several rows of a narrow image. All sizes are
weighed by an estimate of cycles: arithmetic, loads, instructions and latency of one step of
the reduction, the operands' way through the caches, and what a tile costs to begin and end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from tcopt.schedules.cpu.facts import CpuFacts

MIN_ACCUMULATORS = 12
"""Independent accumulators that hide the latency of two FMA units (latency 4, and slack)."""

L2_RATE = 20.0
"""Bytes a cycle that a core streams from its second cache, as measured; half of the peak."""

L3_RATE = 8.0
"""The same from what lies behind it."""

DRAM_RATE = 4.0
"""The same from memory."""

FOLDING_BITS = 512
"""Width of vectors from which on a multiply-add broadcasts an operand from memory by itself."""

MAX_ROWS = 28
MAX_SPANS = 4
MAX_VECTORS = 6

_CONTROL = 3.0
"""Instructions a step spends on its loop."""

_BEGIN = 24.0
"""Cycles for setting up a tile's loops, and for leaving them by a branch foretold wrongly."""

_END = 1.5
"""Cycles for one accumulator's start, epilogue and store."""


@dataclass(frozen=True)
class Tile:
    """A tile of accumulators.

    Attributes:
        rows, spans: extents along the two row variables.
        vectors: vectors along the columns.
        lanes: elements of a vector.
    """

    rows: int
    vectors: int
    lanes: int
    spans: int = 1

    @property
    def accumulators(self) -> int:
        """Vector registers that the tile holds."""
        return self.spans * self.rows * self.vectors


@dataclass(frozen=True)
class Space:
    """What a tile is chosen for.

    Attributes:
        rows, spans: extents of the variables that rows and spans lie along; 1 if none.
        columns: elements along the columns.
        lanes: elements of a vector.
        steps: terms of the reduction.
        repeats: how often rows, spans and columns are gone through for the same columns.
        scalar_bytes: size of the operand that rows broadcast; 0 if none is broadcast.
        vector_bytes: size of the operand whose vectors serve all rows; 0 if its way into the
            second cache is counted elsewhere.
    """

    rows: int
    spans: int
    columns: int
    lanes: int
    steps: int
    repeats: int = 1
    scalar_bytes: int = 0
    vector_bytes: int = 0


@dataclass(frozen=True)
class Plan:
    """A tile, and the loops around it.

    Attributes:
        columns_outside: whether the loop over columns is outside of those over rows, so that
            the vectors of a tile are used for all rows before the next ones come.
        cycles: the estimate.
    """

    tile: Tile
    columns_outside: bool
    cycles: float


def plan_tile(space: Space, facts: CpuFacts) -> Plan:
    """The cheapest tile; ties go to the larger one, then to more rows."""
    plans = [
        Plan(tile, outside, estimate(space, tile, outside, facts))
        for tile in candidate_tiles(space, facts)
        for outside in (True, False)
    ]
    return min(
        plans, key=lambda p: (round(p.cycles), -p.tile.accumulators, -p.tile.rows, p.tile.spans)
    )


def candidate_tiles(space: Space, facts: CpuFacts) -> Iterator[Tile]:
    """Tiles that fit the registers and split their extents almost evenly.

    Spans are for rows that one tile holds whole.
    """
    count = ceil(space.columns / space.lanes)
    for vectors in even_parts(count, MAX_VECTORS):
        for rows in even_parts(space.rows, MAX_ROWS):
            most = MAX_SPANS if rows == space.rows else 1
            for spans in even_parts(space.spans, most):
                tile = Tile(rows, vectors, space.lanes, spans)
                needed = tile.accumulators + vectors + _scratch(tile, space, facts)
                if needed <= facts.registers or tile.accumulators == 1:
                    yield tile


def _scratch(tile: Tile, space: Space, facts: CpuFacts) -> int:
    """Registers for what rows load.

    Without a broadcast every accumulator has a loaded vector of its own. A broadcast that
    serves one multiply-add is overlapped with the next one, in a second register, unless it
    is part of the instruction.
    """
    if not space.scalar_bytes:
        return tile.accumulators - 1
    return 2 if tile.vectors == 1 and facts.vector_bits < FOLDING_BITS else 1


def even_parts(extent: int, most: int) -> list[int]:
    """Sizes up to `most` that cover an extent in equal parts, of which only the last may be
    smaller, by less than the number of parts."""
    return sorted({ceil(extent / parts) for parts in range(ceil(extent / most), extent + 1)})


def estimate(space: Space, tile: Tile, columns_outside: bool, facts: CpuFacts) -> float:
    """Cycles for the whole space.

    Vectors come from behind the second cache when a tile first uses them, and later from
    where the order of the loops leaves them.
    """
    count = ceil(space.columns / space.lanes)
    group = space.steps * tile.vectors * tile.lanes * 4
    rate = _rate(group if columns_outside else space.vector_bytes, facts)
    cycles = 0.0
    for rows, row_tiles in _sizes(space.rows, tile.rows):
        for spans, span_tiles in _sizes(space.spans, tile.spans):
            for vectors, column_tiles in _sizes(count, tile.vectors):
                step = _step(rows * spans, vectors, space, rate, facts)
                one = space.steps * step + _BEGIN + _END * rows * spans * vectors
                cycles += row_tiles * span_tiles * column_tiles * one
    groups = ceil(count / tile.vectors)
    sweeps = groups if columns_outside else 1
    moved = sweeps * space.scalar_bytes / (2 * _rate(space.scalar_bytes, facts))
    late = 0.0
    if space.vector_bytes:
        full = _step(tile.rows * tile.spans, tile.vectors, space, rate, facts)
        late = max(tile.vectors * tile.lanes * 4 / L3_RATE - full, 0.0)
    return cycles * space.repeats + moved + groups * space.steps * late


def _sizes(extent: int, part: int) -> list[tuple[int, int]]:
    """Sizes of the parts of an extent, with how many there are of each."""
    sizes = [(part, extent // part), (extent % part, 1)]
    return [(size, count) for size, count in sizes if size and count]


def _rate(size: int, facts: CpuFacts) -> float:
    """Bytes a cycle at which data of a size can be read again and again."""
    if size <= facts.l1 // 2:
        return 64.0
    return L2_RATE if size <= facts.l2 * 3 // 4 else L3_RATE


def _step(rows: int, vectors: int, space: Space, rate: float, facts: CpuFacts) -> float:
    """Cycles of one step of the reduction."""
    products = rows * vectors
    broadcasts = space.scalar_bytes > 0
    loads = (rows if broadcasts else products) + vectors
    folds = broadcasts and vectors == 1 and facts.vector_bits >= FOLDING_BITS
    moved = vectors * space.lanes * 4 / rate
    exposed = moved / 8 if rate == L3_RATE else 0.0
    cycles = max(
        products / 2,
        MIN_ACCUMULATORS / 2,
        loads / 2,
        (products + loads - (rows if folds else 0) + _CONTROL) / 4,
        moved,
    )
    return cycles + exposed
