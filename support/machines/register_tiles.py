"""Register tiles of a contraction: cost model for their sizes and order.

A tile has `spans x rows x vectors` accumulators. Rows run along one variable, spans along the next
outer one, so that a tile may cover several rows of a narrow image. A cost model in cycles compares
all sizes: arithmetic, loads, instructions and latency of one step of the reduction, operand traffic
through the caches, and the overhead of beginning and ending a tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from tcopt.support.arithmetic.columns import Column, ceil_div, is_column, most, nearest, where
from tcopt.support.machines.machine import LOOP, VectorUnits
from tcopt.support.memo import memo

FOLDING_BITS = 512
"""Minimum vector width with which a multiply-add can broadcast an operand from memory."""

MAX_ROWS = 28
MAX_SPANS = 4
MAX_VECTORS = 6

SETUP = 24
"""Instructions outside of the steps of a tile. Loops that are neither short nor unrolled also end
in a mispredicted branch; those over the window of a depthwise convolution are short."""

END = 6
"""Instructions to initialise an accumulator, compute its epilogue, and store it."""

FEW_ACCUMULATORS, FEW_STREAMED, FEW_OWN = 12, 20, 8
"""Maximum number of accumulators for which a core that computes vectors in halves, and therefore
executes half as many operations at once, overlaps the end of a tile with the beginning of the next.
It is larger if each tile loads its vectors from beyond L1, as the arithmetic of a larger tile hides
more of the latency, and smaller if each accumulator has its own operand, as a larger tile leaves
fewer registers for the operands of the next step."""

DRAIN = 10
"""Cycles by which each further accumulator delays the next tile there: on Zen 4, tiles of 19
accumulators take 5 % longer than those of 12 for sums of 64 terms, tiles of 28 take 10 % longer."""

MOST_TEMPORARIES = 4
"""Maximum number of registers for temporaries between the instructions of one step."""


@dataclass(frozen=True)
class Tile:
    """Size of a tile of accumulators: integers, or NumPy arrays with one element per tile.

    Attributes:
        rows, spans: extents along the two row variables.
        vectors: vectors along the columns.
        lanes: elements of a vector.
    """

    rows: Column
    vectors: Column
    lanes: int
    spans: Column = 1

    @property
    def accumulators(self) -> Column:
        """Number of accumulators of the tile."""
        return self.spans * self.rows * self.vectors


@dataclass(frozen=True)
class TileProblem:
    """The problem for which a tile is chosen.

    `rows` and byte sizes may be NumPy arrays, for several problems at once.

    Attributes:
        rows, spans: extents of the variables along which rows and spans run; 1 if none.
        columns: elements along the columns.
        lanes: elements of a vector.
        steps: terms of the reduction.
        repeats: how often rows, spans and columns are iterated over for the same columns.
        scalar_bytes: size of the operand that rows broadcast; 0 if none is broadcast.
        vector_bytes: size of the operand whose vectors are used for all rows; 0 if its transfer
            into L2 is counted elsewhere.
        seen: for equal parts of the steps, the half-open range of rows that take part; empty if all
            rows take part in all steps.
        element_bytes: size of an element of the operand that vectors are loaded from.
        operations: instructions for one step of an accumulator; a multiply-add is one.
        registers: registers of an accumulator.
        is_dot: whether an instruction adds several terms at once.
        written_out: maximum multiply-adds for which a tile's steps are unrolled; 0 if they never
            are.
        slides: whether a row's operands are those of the next row one step later.
        streams: whether each tile loads its vectors from beyond L1.
        square: rows whose results are transposed and stored together, if each lane stores to a
            different row; 0 if vectors are stored directly.
    """

    rows: Column
    spans: int
    columns: int
    lanes: int
    steps: Column
    repeats: Column = 1
    scalar_bytes: Column = 0
    vector_bytes: int = 0
    seen: tuple[tuple[int, int], ...] = ()
    element_bytes: int = 4
    operations: int = 1
    registers: int = 1
    is_dot: bool = False
    written_out: int = 0
    slides: bool = False
    streams: bool = False
    square: int = 0

    @property
    def broadcasts(self) -> bool:
        """Whether rows broadcast an operand."""
        return isinstance(self.scalar_bytes, np.ndarray) or self.scalar_bytes > 0


@dataclass(frozen=True)
class TilePlan:
    """A tile, and the loops around it.

    Attributes:
        columns_outside: whether the loop over columns is outside of those over rows, so that the
            vectors of a tile are used for all rows before the next vectors.
        cycles: the estimate.
    """

    tile: Tile
    columns_outside: bool
    cycles: float


@memo(1024)
def plan_tile(problem: TileProblem, units: VectorUnits) -> TilePlan:
    """Return the tile with the lowest estimate.

    Ties are broken by more accumulators, then by more rows, or, if rows share no operands, by more
    vectors, which are contiguous in memory.
    """
    tiles = [(t.rows, t.vectors, t.spans) for t in candidate_tiles(problem, units)]
    rows, vectors, spans = np.repeat(np.array(tiles), 2, axis=0).T
    outside = np.tile([True, False], len(tiles))
    many = Tile(rows, vectors, problem.lanes, spans)
    cycles = estimate(problem, many, outside, units)
    # lexsort is stable: the first of equal tiles is chosen.
    high = rows if problem.broadcasts or problem.slides else vectors
    best = int(np.lexsort((spans, -high, -many.accumulators, nearest(cycles)))[0])
    tile = Tile(int(rows[best]), int(vectors[best]), problem.lanes, int(spans[best]))
    return TilePlan(tile, bool(outside[best]), float(cycles[best]))


def candidate_tiles(problem: TileProblem, units: VectorUnits) -> Iterator[Tile]:
    """Yield tiles that fit the registers and divide their extents almost evenly, or into squares.

    Tiles have several spans only if they cover all rows.
    """
    count = ceil(problem.columns / problem.lanes)
    heights = set(even_parts(problem.rows, MAX_ROWS))
    if problem.square > 1:
        heights |= set(range(problem.square, min(MAX_ROWS, problem.rows) + 1, problem.square))
    for vectors in even_parts(count, MAX_VECTORS):
        for rows in sorted(heights):
            widest = MAX_SPANS if rows == problem.rows else 1
            for spans in even_parts(problem.spans, widest):
                tile = Tile(rows, vectors, problem.lanes, spans)
                if fits(problem, tile, units):
                    yield tile


def fits(problem: TileProblem, tile: Tile, units: VectorUnits) -> Column:
    """Whether the registers hold a tile and the operands that a step loads."""
    needed = tile.accumulators * problem.registers + tile.vectors
    needed = needed + _scratch(tile, problem, units)
    needed = needed + min(problem.operations - 1, MOST_TEMPORARIES)
    return (needed <= units.registers) | (tile.accumulators == 1)


def _scratch(tile: Tile, problem: TileProblem, units: VectorUnits) -> Column:
    """Return the registers for the operands that rows load.

    Without a broadcast every accumulator has its own vector. Broadcasts that serve one multiply-add
    overlap with the next ones, in further registers, unless they are part of the instruction. If
    multiply-adds take a lane of a register, LLVM loads the operands of a row for several steps at
    once, and the vectors of the next step early.
    """
    if not problem.broadcasts:
        return tile.accumulators - 1
    if units.multiplies_by_lane:
        return tile.rows * tile.spans + 2
    return 1 if units.vector_bits >= FOLDING_BITS else where(tile.vectors == 1, 3, 1)


def even_parts(extent: int, most: int) -> list[int]:
    """Return sizes up to `most` that divide an extent into nearly equal parts.

    Only the last part may be smaller, by less than the number of parts.
    """
    return sorted({ceil(extent / parts) for parts in range(ceil(extent / most), extent + 1)})


def estimate(
    problem: TileProblem, tile: Tile, columns_outside: Column, units: VectorUnits
) -> Column:
    """Estimate the cycles of the whole problem: computation, and stalls for operands."""
    if problem.seen:
        cycles = _computing_what_is_seen(problem, tile, units)
    else:
        cycles = _computing(problem, tile, units)
    cycles = most(cycles * problem.repeats, _fetching(problem, tile, columns_outside, units))
    return cycles + _waiting(problem, tile, columns_outside, units)


def _computing(problem: TileProblem, tile: Tile, units: VectorUnits) -> Column:
    """Return the cycles of all tiles if all rows take part in all steps."""
    count = ceil(problem.columns / problem.lanes)
    written = _is_written_out(tile, problem)
    cycles = 0.0
    for rows, row_tiles in _sizes(problem.rows, tile.rows):
        for spans, span_tiles in _sizes(problem.spans, tile.spans):
            for vectors, column_tiles in _sizes(count, tile.vectors):
                one = _begun_and_ended(rows * spans, vectors, written, problem, units)
                one = one + problem.steps * _step(rows * spans, vectors, written, problem, units)
                cycles = cycles + row_tiles * span_tiles * column_tiles * one
    return cycles


def _computing_what_is_seen(problem: TileProblem, tile: Tile, units: VectorUnits) -> Column:
    """Return the cycles of all tiles if rows take part in some of the steps.

    Each tile height is evaluated separately.
    """
    if not is_column(tile.rows):
        return _computing_rows(problem, tile.rows, tile.spans, tile.vectors, units)
    cycles = np.zeros(len(tile.rows))
    for height in np.unique(np.asarray(tile.rows, np.int64)).tolist():
        own = tile.rows == height
        cycles[own] = _computing_rows(problem, height, tile.spans[own], tile.vectors[own], units)
    return cycles


def _computing_rows(
    problem: TileProblem, height: int, all_spans: Column, all_vectors: Column, units: VectorUnits
) -> Column:
    count = ceil(problem.columns / problem.lanes)
    steps = problem.steps / len(problem.seen)
    cycles = 0.0
    for start in range(0, problem.rows, height):
        end = min(start + height, problem.rows)
        active = [min(end, last) - max(start, first) for first, last in problem.seen]
        for spans, span_tiles in _sizes(problem.spans, all_spans):
            for vectors, column_tiles in _sizes(count, all_vectors):
                one = _begun_and_ended((end - start) * spans, vectors, False, problem, units)
                for rows in active:
                    if rows > 0:
                        one = one + steps * _step(rows * spans, vectors, False, problem, units)
                cycles = cycles + span_tiles * column_tiles * one
    return cycles


def _begun_and_ended(
    rows: Column, vectors: Column, written: Column, problem: TileProblem, units: VectorUnits
) -> Column:
    """Return the cycles of a tile outside its steps."""
    accumulators = rows * vectors
    is_short = written | (not problem.broadcasts)
    cycles = units.cycles(others=SETUP + END * accumulators) + where(is_short, 0, units.branch)
    cycles = cycles + vectors * _stored_apart(rows, problem)
    if not _in_halves(problem, units):
        return cycles
    few = FEW_STREAMED if problem.streams else FEW_ACCUMULATORS if problem.broadcasts else FEW_OWN
    return cycles + most(0, accumulators - few) * DRAIN


def _stored_apart(rows: Column, problem: TileProblem) -> Column:
    """Return the cycles to store one vector per row, each lane of which belongs to a different row.

    Squares are transposed, then smaller powers of two. Each is stored in a cycle; an element of a
    last row is extracted and stored in two.
    """
    cycles: Column = 0
    size, rest = problem.square, rows
    while size > 1:
        cycles = cycles + rest // size
        size, rest = size // 2, rest % size
    if problem.square:
        cycles = cycles + 2 * rest
    return cycles * problem.lanes


def _is_written_out(tile: Tile, problem: TileProblem) -> Column:
    """Whether a tile is fully unrolled, so that it overlaps with the next one."""
    return tile.accumulators * problem.operations * problem.steps <= problem.written_out


def _in_halves(problem: TileProblem, units: VectorUnits) -> bool:
    """Whether multiply-adds are computed in halves, and broadcast their operand from memory.

    Dot products are computed in halves too, but need separate broadcasts: measurements on Zen 4
    show that they are fastest with the tiles for cores with two units.
    """
    return units.fma_units == 1 and not problem.is_dot


@dataclass(frozen=True)
class _Moved:
    """Bytes that the loops between tiles read.

    Attributes:
        groups, tiles: number of column groups, and of row tiles for each group.
        vectors: bytes of all vectors, once.
        scalars_between, vectors_between: bytes read before the same scalars or vectors are read
            again, which determines the cache level that holds them.
    """

    groups: Column
    tiles: Column
    vectors: Column
    scalars_between: Column
    vectors_between: Column


def _moved(problem: TileProblem, tile: Tile, columns_outside: Column) -> _Moved:
    """Return the bytes that the loops between tiles read.

    Each tile of columns reads all broadcast elements, each tile of rows all vectors. The loop order
    determines the reuse distance.
    """
    groups = most(ceil_div(ceil(problem.columns / problem.lanes), tile.vectors), 1)
    tiles = ceil_div(problem.rows, tile.rows) * ceil_div(problem.spans, tile.spans)
    tiles = most(tiles * problem.repeats, 1)
    vectors = groups * tile.vectors * tile.lanes * problem.steps * problem.element_bytes
    one = problem.scalar_bytes // tiles + vectors // groups
    others = problem.scalar_bytes + vectors // groups
    far = problem.vector_bytes + problem.scalar_bytes // tiles
    scalars, again = where(columns_outside, others, one), where(columns_outside, one, far)
    return _Moved(groups, tiles, vectors, scalars, again)


def _fetching(
    problem: TileProblem, tile: Tile, columns_outside: Column, units: VectorUnits
) -> Column:
    """Return the cycles in which L2 delivers all vectors, overlapped with computation.

    L1 keeps the vectors if they fit a quarter of it: scalars and results pass through it too.
    """
    moved = _moved(problem, tile, columns_outside)
    cycles = moved.tiles * moved.vectors / units.near_rate
    return where(moved.vectors_between > units.l1 // 4, cycles, 0.0)


def _waiting(
    problem: TileProblem, tile: Tile, columns_outside: Column, units: VectorUnits
) -> Column:
    """Return the stall cycles for data of both operands that are not in L1.

    All rows need a line of broadcast elements at the same step, and the next ones many steps later:
    too many streams for the prefetcher.
    """
    moved = _moved(problem, tile, columns_outside)
    vectors, again = moved.tiles * moved.vectors, moved.vectors_between
    late = 2 * units.exposed(moved.groups * problem.scalar_bytes)
    later = units.exposed(vectors, near=units.is_near(again))
    return where(moved.scalars_between > units.l1, late, 0.0) + where(again > units.l1, later, 0.0)


def _sizes(extent: Column, part: Column) -> list[tuple[Column, Column]]:
    """Return the sizes of the parts of an extent, and the number of parts of each size."""
    rest = extent % part
    if not isinstance(rest, np.ndarray) and not rest:
        return [(part, extent // part)]
    return [(part, extent // part), (rest, where(rest > 0, 1, 0))]


def _step(
    rows: Column, vectors: Column, written: Column, problem: TileProblem, units: VectorUnits
) -> Column:
    """Return the cycles of one step of the reduction, with operands in L1."""
    # The common factor of all rows stays in registers from tile to tile.
    wide = vectors if problem.broadcasts else rows * vectors
    folded: Column = 0
    if problem.broadcasts and units.vector_bits >= FOLDING_BITS:
        folded = where(vectors == 1, rows, 0)
    halves = _in_halves(problem, units)
    core = replace(units, fma_units=2) if units.fma_units == 1 and not halves else units
    return core.cycles(
        products=rows * vectors * problem.operations,
        vectors=wide,
        scalars=rows if problem.broadcasts else 0,
        folded=folded,
        others=where(written, 0, LOOP),
        chain=1,
    )
