"""Contractions whose reduction is so deep that the vectors of a tile do not stay in cache.

    parallel over chunks of columns, images, chunks of rows
      for each part of the reduction
        for each tile of columns and rows of the chunks
          accumulators = 0                         rows x vectors, in registers
          multiply-adds of this part; store a partial result
      for each row of the chunks
        add up the parts, epilogue

Otherwise every tile of rows would read all weights of its columns from L2 or L3. In parts, the
weights of one part stay in cache for all tiles of rows, and the rows of a chunk for all tiles of
columns. This is the blocking of matrix products by `cpu-matmul`, for sums over several variables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.rules.cpu.tiles import Plan, TileProblem, plan_tile
from tcopt.schedules.spaces.space import Choice, Column, Point

if TYPE_CHECKING:
    from tcopt.schedules.rules.cpu.tile_space import TileSpace

MAX_PARTS = 16
"""Upper bound on the parts of a reduction: each has a buffer of partial results."""

DEEP_SHARE = 4
"""A reduction is deep if its terms for a single vector of columns exceed this part of L2."""

PART_SHARE = 6
"""A part of the vectors of a tile takes up at most this part of L2."""

CHUNK_SHARE = 2
"""The rows of a chunk take up about this part of L2."""

NEAR = 4
"""Chunks are larger than wanted if there are none of at least this part of the wanted size."""

PARTIAL_SIZE = 2
"""Partial results of a chunk, which are written and read once, take up to this many times L2."""

MIN_TILES = 8
"""Tiles of rows that share a part of the weights, at least."""

MIN_TASKS = 2
"""Chunks for each core, at least."""


def in_parts(problem: TileProblem, parts: Column) -> TileProblem:
    """The problem that tiles solve for each part of a reduction, as often as there are parts."""
    return replace(problem, steps=problem.steps // parts, repeats=problem.repeats * parts)


def part_counts(problem: TileProblem, extent: int, row_extents: int, facts: CpuFacts) -> list[int]:
    """The numbers of equal parts that a reduction may be divided into.

    Args:
        extent: iterations of its outermost loop.
        row_extents: product of the extents of all variables that rows may lie along.
    """
    vector = problem.lanes * problem.element_bytes * problem.steps
    is_deep = problem.broadcasts and vector > facts.l2 // DEEP_SHARE
    if not is_deep or problem.seen or problem.is_dot or row_extents < MIN_TILES:
        return [1]
    return [n for n in range(1, min(MAX_PARTS, extent) + 1) if extent % n == 0]


def plan_parts(problem: TileProblem, counts: list[int], facts: CpuFacts) -> tuple[Plan, int]:
    """The fewest parts for which the vectors of the best tile fit their share of the cache."""
    for parts in counts[1:]:
        plan = plan_tile(in_parts(problem, parts), facts)
        tile = plan.tile
        vectors = tile.vectors * tile.lanes * problem.element_bytes * problem.steps // parts
        tiles = problem.rows * problem.spans // (tile.rows * tile.spans) * problem.repeats
        if tiles >= MIN_TILES and vectors <= facts.l2 // PART_SHARE:
            return replace(plan, columns_outside=True), parts
    return plan_tile(problem, facts), 1


@dataclass(frozen=True)
class Division:
    """How the loops between tiles are divided by that over the parts of a reduction.

    Attributes:
        outside: variables whose loops are outside of the parts, outermost first.
        inside: those whose loops are inside of them.
        chunks: variables with a loop on both sides, and the tiles of the inner one.
    """

    outside: tuple[int, ...]
    inside: tuple[int, ...]
    chunks: dict[int, int]

    @property
    def outer_variables(self) -> list[int]:
        """The variables of the loops outside of the parts, chunks included, outermost first."""
        return [*self.outside, *(v for v in self.chunks if v not in self.outside)]


def divide(space: TileSpace, choice: Choice) -> Division:
    """Choose chunks of rows and columns that caches hold, but at least two tasks for each core."""
    facts, problem, k = space.facts, space.problem, Point(dict(choice))
    order = space.order(choice)
    extents = {v: int(space.tiles_along(v, k)) for v in order}
    columns = space.column_variable
    rows = [v for v in order if v in space.row_variables]
    inside: list[int] = []
    while rows and prod(extents[v] for v in inside) < MIN_TILES:
        inside.insert(0, rows.pop())
    if not inside:
        return Division(tuple(order), (), {})
    parts, cache = choice["parts"], facts.l2 // CHUNK_SHARE
    first, others = inside[0], prod(extents[v] for v in inside[1:])
    tile_rows = choice["rows"] * choice["spans"]
    all_tiles = max(1, problem.rows * problem.spans * problem.repeats // tile_rows)
    tile_bytes = int(problem.scalar_bytes) // all_tiles // parts
    fit = max(cache // max(1, tile_bytes), MIN_TILES)
    chunk = _chunk(extents[first], max(1, fit // others))
    chunks = {first: chunk} if chunk < extents[first] else {}
    outside = [v for v in order if v not in inside]
    if columns in extents:
        tasks = prod(n for v, n in extents.items() if v in outside and v != columns)
        tasks *= -(-extents[first] // chunk)
        width = choice["vectors"] * problem.lanes * problem.element_bytes
        fit = PARTIAL_SIZE * facts.l2 // max(1, parts * chunk * others * tile_rows * width)
        most = extents[columns] * tasks // (MIN_TASKS * facts.cores)
        sizes = [n for n in range(1, extents[columns] + 1) if extents[columns] % n == 0]
        chunks[columns] = max(n for n in sizes if n == 1 or n <= min(fit, most))
    return Division(tuple(outside), tuple(inside), chunks)


def _chunk(extent: int, most: int) -> int:
    """The size of equal chunks of an extent: about `most`, or less.

    Chunks of different sizes, of tiles of which the last is smaller, would leave conditions in the
    innermost loops.
    """
    sizes = [n for n in range(1, extent + 1) if extent % n == 0]
    below = max(n for n in sizes if n <= most)
    return below if below * NEAR >= most else min((n for n in sizes if n > most), default=below)


def split_chunks(
    sch: Schedule, between: dict[int, Loop], division: Division
) -> tuple[list[Loop], list[Loop]]:
    """The loops outside of the parts of a reduction, and those between tiles inside of them."""
    outer, tiles = dict(between), dict(between)
    for variable, size in division.chunks.items():
        outer[variable], tiles[variable] = sch.split(between[variable], factors=[None, size])
    inside = [v for v in division.outside if v in division.chunks] + list(division.inside)
    return [outer[v] for v in division.outer_variables], [tiles[v] for v in inside]
