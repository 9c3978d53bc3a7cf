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

from tcopt.schedules.rules.cpu.facts import CpuFacts

MIN_ACCUMULATORS = 12
"""Independent accumulators that hide the latency of two FMA units (latency 4, and slack)."""

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

_LOAD = 0.1
"""Cycles that a load takes from the arithmetic beside it, where both have units enough."""

LINE = 64
"""Bytes of a line of a cache."""

SCALAR_WAIT = 4.0
"""Cycles for a line of what rows broadcast that comes from behind the first cache. All rows need
a line at the same step, and the next ones many steps later: too many streams to fetch ahead."""

VECTOR_WAIT = 0.3
"""The same for a line of vectors from the second cache: one stream, which is fetched ahead."""

FAR_VECTOR_WAIT = 2.0
"""The same from behind the second cache."""


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
        seen: for equal parts of the steps the rows that take part, from the first to the one
            behind the last; empty if all rows do in all steps.
        element_bytes: size of an element of the operand that vectors are loaded from.
    """

    rows: int
    spans: int
    columns: int
    lanes: int
    steps: int
    repeats: int = 1
    scalar_bytes: int = 0
    vector_bytes: int = 0
    seen: tuple[tuple[int, int], ...] = ()
    element_bytes: int = 4


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

    Without a broadcast every accumulator has a loaded vector of its own. Broadcasts that serve
    one multiply-add are overlapped with the next ones, in further registers, unless they are
    part of the instruction. Where multiply-adds take a lane of a register, LLVM loads what a
    row needs for several steps at once, and the vectors of the next step early.
    """
    if not space.scalar_bytes:
        return tile.accumulators - 1
    if facts.multiplies_by_lane:
        return tile.rows * tile.spans + 2
    return 3 if tile.vectors == 1 and facts.vector_bits < FOLDING_BITS else 1


def even_parts(extent: int, most: int) -> list[int]:
    """Sizes up to `most` that cover an extent in equal parts, of which only the last may be
    smaller, by less than the number of parts."""
    return sorted({ceil(extent / parts) for parts in range(ceil(extent / most), extent + 1)})


def estimate(space: Space, tile: Tile, columns_outside: bool, facts: CpuFacts) -> float:
    """Cycles for the whole space: what tiles compute, and what they wait for operands."""
    count = ceil(space.columns / space.lanes)
    cycles = 0.0
    for rows, row_tiles, parts in _row_tiles(space, tile.rows):
        for spans, span_tiles in _sizes(space.spans, tile.spans):
            for vectors, column_tiles in _sizes(count, tile.vectors):
                one = _BEGIN + _END * rows * spans * vectors
                for active, steps in parts:
                    one += steps * _step(active * spans, vectors, space, facts)
                cycles += row_tiles * span_tiles * column_tiles * one
    return cycles * space.repeats + _waiting(space, tile, columns_outside, facts)


def _row_tiles(space: Space, rows: int) -> Iterator[tuple[int, int, list[tuple[int, float]]]]:
    """Tiles along rows: the rows of one, how many there are, how many rows take how many steps."""
    if not space.seen:
        for size, count in _sizes(space.rows, rows):
            yield size, count, [(size, space.steps)]
        return
    steps = space.steps / len(space.seen)
    for start in range(0, space.rows, rows):
        end = min(start + rows, space.rows)
        active = [min(end, last) - max(start, first) for first, last in space.seen]
        yield end - start, 1, [(n, steps) for n in active if n > 0]


def _waiting(space: Space, tile: Tile, columns_outside: bool, facts: CpuFacts) -> float:
    """Cycles for lines of both operands that are not in the first cache.

    Each tile of columns goes over all that rows broadcast, each tile of rows over all vectors.
    The order of the loops says how much is read in between, which decides where they still are.
    """
    groups = ceil(ceil(space.columns / space.lanes) / tile.vectors)
    tiles = ceil(space.rows / tile.rows) * ceil(space.spans / tile.spans) * space.repeats
    vectors = groups * tile.vectors * tile.lanes * space.steps * space.element_bytes
    one = space.scalar_bytes // tiles + vectors // groups
    others = space.scalar_bytes + vectors // groups
    far = space.vector_bytes + space.scalar_bytes // tiles
    scalars = others if columns_outside else one
    cycles = 0.0
    if scalars > facts.l1:
        cycles += groups * space.scalar_bytes / LINE * SCALAR_WAIT
    again = one if columns_outside else far
    if again > facts.l1:
        wait = VECTOR_WAIT if again <= facts.l2 * 3 // 4 else FAR_VECTOR_WAIT
        cycles += tiles * vectors / LINE * wait
    return cycles


def _sizes(extent: int, part: int) -> list[tuple[int, int]]:
    """Sizes of the parts of an extent, with how many there are of each."""
    sizes = [(part, extent // part), (extent % part, 1)]
    return [(size, count) for size, count in sizes if size and count]


def _step(rows: int, vectors: int, space: Space, facts: CpuFacts) -> float:
    """Cycles of one step of the reduction, its operands being in the first cache."""
    products = rows * vectors
    broadcasts = space.scalar_bytes > 0
    loads = (rows if broadcasts else products) + vectors
    folds = broadcasts and vectors == 1 and facts.vector_bits >= FOLDING_BITS
    cycles = max(
        products / 2,
        MIN_ACCUMULATORS / 2,
        loads / 2,
        (products + loads - (rows if folds else 0) + _CONTROL) / 4,
    )
    return cycles + _LOAD * loads
