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

import numpy as np

from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.support.columns import Column, ceil_div, is_column, most, nearest, where
from tcopt.support.memo import memo

LATENCY = 5.5
"""Cycles from a multiply-add to the next one of the same sum: 4 or 5, and slack."""

FOLDING_BITS = 512
"""Width of vectors from which on a multiply-add broadcasts an operand from memory by itself."""

MAX_ROWS = 28
MAX_SPANS = 4
MAX_VECTORS = 6

_CONTROL = 3.0
"""Instructions a step spends on its loop."""

_BEGIN = 24.0
"""Cycles for setting up a tile's loops, and for leaving them by a branch foretold wrongly."""

_BEGIN_SHORT = 6.0
"""The same where a tile has no loops, or short ones whose ends are foretold: those over the window
of a depthwise convolution."""

_STORE = 1.0
"""Cycles of a store."""

_STORE_ALONE = 2.0
"""Cycles for an element of a vector that has to be stored by itself."""

_STORE_LATER = 4.0
"""Cycles that a square of results waits for the one before it, where vectors are computed in
halves."""

_END = 1.5
"""Cycles for one accumulator's start, epilogue and store."""

_LOAD = 0.1
"""Cycles that a load takes from the arithmetic beside it, where both have units enough."""

FEW_ACCUMULATORS = 12
"""Accumulators up to which a core whose vectors are computed in halves begins the next tile while
it ends one, as it has half as many operations to do at once."""

_DRAIN = 10.0
"""Cycles that each further one makes the next tile wait there: on Zen 4 tiles of 19 accumulators
take 5 % longer than those of 12 where 64 terms are added, tiles of 28 take 10 % longer."""

FEW_STREAMED = 20
_DRAIN_STREAMED = 15.0
"""Both where vectors come from behind the first cache for each tile: the arithmetic of a larger one
hides more of that, 1 x 16 accumulators of Winograd's products by 14 % more than 2 x 8."""

FEW_OWN = 8
"""The same where each accumulator has an operand of its own: as many vectors are loaded as are
multiplied, and the registers of a larger tile hold fewer of them for the next step."""

_DRAIN_OWN = 2.0
"""Cycles that each further one takes there."""

MOST_TEMPORARIES = 4
"""Registers for what several instructions for one step hand to each other."""

LINE = 64
"""Bytes of a line of a cache."""

SCALAR_WAIT = 4.0
"""Cycles for a line of what rows broadcast that comes from behind the first cache. All rows need
a line at the same step, and the next ones many steps later: too many streams to fetch ahead."""

VECTOR_WAIT = 0.3
"""The same for a line of vectors from the second cache: one stream, which is fetched ahead."""

L2_VECTOR_SHARE = 0.7
"""Vectors that come from the second cache in a cycle, where all is fetched ahead: narrow tiles of
many vectors need more of them in a step than their multiply-adds give time for. Five vectors for
two rows of AVX2 take 7 cycles a step on Zen 4, 10 multiply-adds 5."""

L2_BITS = 256
"""Width of vectors that the second cache delivers at this rate, at least."""

FAR_VECTOR_WAIT = 2.0
"""The same from behind the second cache."""


@dataclass(frozen=True)
class Tile:
    """A tile of accumulators: numbers, or columns of many tiles.

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
        """Vector registers that the tile holds."""
        return self.spans * self.rows * self.vectors


@dataclass(frozen=True)
class TileProblem:
    """What a tile is chosen for. Rows and their bytes may be columns, for parts of a whole.

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
        operations: instructions for one step of an accumulator; a multiply-add is one.
        registers: that an accumulator takes.
        is_dot: whether an instruction adds several terms at once.
        written_out: multiply-adds up to which a tile's steps are written out; 0 if they never are.
        slides: whether a row's own operands are those of the next row one step later.
        streams: whether vectors come from behind the first cache for each tile.
        square: rows whose results are stored together where each lane has a row of its own to
            store to; 0 if vectors are stored as they are.
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


@memo(1024)
def plan_tile(problem: TileProblem, facts: CpuFacts) -> Plan:
    """The cheapest tile; ties go to the larger one, then to more rows, or, where rows share no
    operands, to more vectors, which are neighbours in memory."""
    tiles = [(t.rows, t.vectors, t.spans) for t in candidate_tiles(problem, facts)]
    rows, vectors, spans = np.repeat(np.array(tiles), 2, axis=0).T
    outside = np.tile([True, False], len(tiles))
    many = Tile(rows, vectors, problem.lanes, spans)
    cycles = estimate(problem, many, outside, facts)
    # The first of equal ones counts.
    high = rows if problem.broadcasts or problem.slides else vectors
    best = int(np.lexsort((spans, -high, -many.accumulators, nearest(cycles)))[0])
    tile = Tile(int(rows[best]), int(vectors[best]), problem.lanes, int(spans[best]))
    return Plan(tile, bool(outside[best]), float(cycles[best]))


def candidate_tiles(problem: TileProblem, facts: CpuFacts) -> Iterator[Tile]:
    """Tiles that fit the registers and split their extents almost evenly, or into whole squares.

    Spans are for rows that one tile holds whole.
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
                if fits(problem, tile, facts):
                    yield tile


def fits(problem: TileProblem, tile: Tile, facts: CpuFacts) -> Column:
    """Whether registers hold a tile and what a step loads."""
    needed = tile.accumulators * problem.registers + tile.vectors
    needed = needed + _scratch(tile, problem, facts)
    needed = needed + min(problem.operations - 1, MOST_TEMPORARIES)
    return (needed <= facts.registers) | (tile.accumulators == 1)


def _scratch(tile: Tile, problem: TileProblem, facts: CpuFacts) -> Column:
    """Registers for what rows load.

    Without a broadcast every accumulator has a loaded vector of its own. Broadcasts that serve
    one multiply-add are overlapped with the next ones, in further registers, unless they are
    part of the instruction. Where multiply-adds take a lane of a register, LLVM loads what a
    row needs for several steps at once, and the vectors of the next step early.
    """
    if not problem.broadcasts:
        return tile.accumulators - 1
    if facts.multiplies_by_lane:
        return tile.rows * tile.spans + 2
    return 1 if facts.vector_bits >= FOLDING_BITS else where(tile.vectors == 1, 3, 1)


def even_parts(extent: int, most: int) -> list[int]:
    """Sizes up to `most` that cover an extent in equal parts, of which only the last may be
    smaller, by less than the number of parts."""
    return sorted({ceil(extent / parts) for parts in range(ceil(extent / most), extent + 1)})


def estimate(problem: TileProblem, tile: Tile, columns_outside: Column, facts: CpuFacts) -> Column:
    """Cycles for the whole problem: what tiles compute, and what they wait for operands."""
    if problem.seen:
        cycles = _computing_what_is_seen(problem, tile, facts)
    else:
        cycles = _computing(problem, tile, facts)
    cycles = most(cycles * problem.repeats, _fetching(problem, tile, columns_outside, facts))
    return cycles + _waiting(problem, tile, columns_outside, facts)


def _computing(problem: TileProblem, tile: Tile, facts: CpuFacts) -> Column:
    """Cycles of all tiles, whose rows take part in all steps."""
    count = ceil(problem.columns / problem.lanes)
    written = _is_written_out(tile, problem)
    cycles = 0.0
    for rows, row_tiles in _sizes(problem.rows, tile.rows):
        for spans, span_tiles in _sizes(problem.spans, tile.spans):
            for vectors, column_tiles in _sizes(count, tile.vectors):
                one = _begun_and_ended(rows * spans, vectors, written, problem, facts)
                one = one + problem.steps * _step(rows * spans, vectors, written, problem, facts)
                cycles = cycles + row_tiles * span_tiles * column_tiles * one
    return cycles


def _computing_what_is_seen(problem: TileProblem, tile: Tile, facts: CpuFacts) -> Column:
    """The same where rows see some of the steps; heights are gone through one by one."""
    if not is_column(tile.rows):
        return _computing_rows(problem, tile.rows, tile.spans, tile.vectors, facts)
    cycles = np.zeros(len(tile.rows))
    for height in np.unique(np.asarray(tile.rows, np.int64)).tolist():
        own = tile.rows == height
        cycles[own] = _computing_rows(problem, height, tile.spans[own], tile.vectors[own], facts)
    return cycles


def _computing_rows(
    problem: TileProblem, height: int, all_spans: Column, all_vectors: Column, facts: CpuFacts
) -> Column:
    count = ceil(problem.columns / problem.lanes)
    steps = problem.steps / len(problem.seen)
    cycles = 0.0
    for start in range(0, problem.rows, height):
        end = min(start + height, problem.rows)
        active = [min(end, last) - max(start, first) for first, last in problem.seen]
        for spans, span_tiles in _sizes(problem.spans, all_spans):
            for vectors, column_tiles in _sizes(count, all_vectors):
                one = _begun_and_ended((end - start) * spans, vectors, False, problem, facts)
                for rows in active:
                    if rows > 0:
                        one = one + steps * _step(rows * spans, vectors, False, problem, facts)
                cycles = cycles + span_tiles * column_tiles * one
    return cycles


def _begun_and_ended(
    rows: Column, vectors: Column, written: Column, problem: TileProblem, facts: CpuFacts
) -> Column:
    """Cycles of a tile beside its steps."""
    accumulators = rows * vectors
    short = written | (not problem.broadcasts)
    cycles = where(short, _BEGIN_SHORT, _BEGIN) + _END * accumulators
    cycles = cycles + vectors * _stored_apart(rows, problem)
    if not _in_halves(problem, facts):
        return cycles
    if problem.square:
        cycles = cycles + vectors * most(rows // problem.square - 1, 0) * _STORE_LATER
    few, each = FEW_ACCUMULATORS, _DRAIN
    if problem.streams:
        few, each = FEW_STREAMED, _DRAIN_STREAMED
    elif not problem.broadcasts:
        few, each = FEW_OWN, _DRAIN_OWN
    return cycles + most(0, accumulators - few) * each


def _stored_apart(rows: Column, problem: TileProblem) -> Column:
    """Cycles for the stores of some vectors, one a row, each lane of which has a row of its own.

    Squares of them are transposed, smaller powers of two of what is left, and one stays alone.
    """
    cycles: Column = 0
    size, rest = problem.square, rows
    while size > 1:
        cycles = cycles + rest // size * _STORE
        size, rest = size // 2, rest % size
    if problem.square:
        cycles = cycles + rest * _STORE_ALONE
    return cycles * problem.lanes


def _is_written_out(tile: Tile, problem: TileProblem) -> Column:
    """Whether a tile has no loops: the next one begins while it ends."""
    return tile.accumulators * problem.operations * problem.steps <= problem.written_out


def _in_halves(problem: TileProblem, facts: CpuFacts) -> bool:
    """Whether multiply-adds are computed in halves, and load what they broadcast themselves.

    Dot products are computed in halves as well, but have it loaded by instructions of their own: as
    measured on Zen 4, they are fastest in the tiles of cores that begin two of them.
    """
    return facts.fma_units == 1 and not problem.is_dot


@dataclass(frozen=True)
class _Moved:
    """What loops between tiles read, in bytes.

    Attributes:
        groups, tiles: of columns, and of rows for each of these.
        vectors: all vectors, once.
        scalars_between, vectors_between: what is read before the same scalars or vectors are
            read again, which decides where they still are.
    """

    groups: Column
    tiles: Column
    vectors: Column
    scalars_between: Column
    vectors_between: Column


def _moved(problem: TileProblem, tile: Tile, columns_outside: Column) -> _Moved:
    """Each tile of columns goes over all that rows broadcast, each tile of rows over all vectors;
    the order of the loops says how much is read in between."""
    groups = most(ceil_div(ceil(problem.columns / problem.lanes), tile.vectors), 1)
    tiles = ceil_div(problem.rows, tile.rows) * ceil_div(problem.spans, tile.spans)
    tiles = most(tiles * problem.repeats, 1)
    vectors = groups * tile.vectors * tile.lanes * problem.steps * problem.element_bytes
    one = problem.scalar_bytes // tiles + vectors // groups
    others = problem.scalar_bytes + vectors // groups
    far = problem.vector_bytes + problem.scalar_bytes // tiles
    scalars, again = where(columns_outside, others, one), where(columns_outside, one, far)
    return _Moved(groups, tiles, vectors, scalars, again)


def _fetching(problem: TileProblem, tile: Tile, columns_outside: Column, facts: CpuFacts) -> Column:
    """Cycles in which the second cache delivers all vectors, while tiles are computed.

    The first cache keeps them where a quarter of it holds them: scalars and results pass it, too.
    """
    moved = _moved(problem, tile, columns_outside)
    rate = L2_VECTOR_SHARE * max(facts.vector_bits, L2_BITS) / 8
    return where(moved.vectors_between > facts.l1 // 4, moved.tiles * moved.vectors / rate, 0.0)


def _waiting(problem: TileProblem, tile: Tile, columns_outside: Column, facts: CpuFacts) -> Column:
    """Cycles for lines of both operands that are not in the first cache."""
    moved = _moved(problem, tile, columns_outside)
    late = moved.groups * problem.scalar_bytes / LINE * SCALAR_WAIT
    again = moved.vectors_between
    wait = where(again <= facts.l2 * 3 // 4, VECTOR_WAIT, FAR_VECTOR_WAIT)
    later = moved.tiles * moved.vectors / LINE * wait
    return where(moved.scalars_between > facts.l1, late, 0.0) + where(again > facts.l1, later, 0.0)


def _sizes(extent: Column, part: Column) -> list[tuple[Column, Column]]:
    """Sizes of the parts of an extent, with how many there are of each."""
    rest = extent % part
    if not isinstance(rest, np.ndarray) and not rest:
        return [(part, extent // part)]
    return [(part, extent // part), (rest, where(rest > 0, 1, 0))]


def _step(
    rows: Column, vectors: Column, written: Column, problem: TileProblem, facts: CpuFacts
) -> Column:
    """Cycles of one step of the reduction, its operands being in the first cache."""
    products = rows * vectors * problem.operations
    scalars = rows if problem.broadcasts else 0
    # What all rows multiply then stays in registers from tile to tile.
    wide = vectors if problem.broadcasts else rows * vectors
    loads = scalars + wide
    folded: Column = 0
    if problem.broadcasts and facts.vector_bits >= FOLDING_BITS:
        folded = where(vectors == 1, rows, 0)
    halves = _in_halves(problem, facts)
    units = 1 if halves else 2
    cycles = most(
        products / units,
        LATENCY,
        # Where a vector is multiplied in halves, it is loaded so.
        scalars / 2 + wide / units,
        (products + loads - folded + where(written, 0.0, _CONTROL)) / 4,
    )
    # Where multiply-adds take two cycles each, what they load themselves is there in time.
    return cycles + _LOAD * (loads - folded if halves else loads)
