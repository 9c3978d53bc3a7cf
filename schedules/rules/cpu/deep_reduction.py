"""Contractions with a reduction too deep for the vectors of a tile to stay in cache.

    parallel over chunks of columns, images, chunks of rows
      for each part of the reduction
        for each tile of columns and rows of the chunks
          accumulators = 0                         rows x vectors, in registers
          multiply-adds of this part; store a partial result
      for each row of the chunks
        add up the parts, epilogue

Without parts, every tile of rows would read all weights of its columns from L2 or L3. With parts,
the weights of one part stay in cache for all tiles of rows, and the rows of a chunk for all tiles
of columns. `cpu-matmul` blocks matrix products in the same way; this is for sums over several
variables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts
from tcopt.schedules.spaces.space import Choice, Column, Point
from tcopt.support.machines.register_tiles import TilePlan, TileProblem, plan_tile

if TYPE_CHECKING:
    from tcopt.schedules.rules.cpu.tile_space import TileSpace

MAX_PARTS = 16
"""Maximum number of parts of a reduction: each has a buffer of partial results."""

DEEP_SHARE = 4
"""A reduction is deep if its terms for one vector of columns exceed this fraction of L2 (1/n)."""

PART_SHARE = 6
"""Maximum size of the vectors that tiles share in one part of a reduction, as a fraction of L2
(1/n)."""

CHUNK_SHARE = 2
"""Approximate size of the rows of a chunk, as a fraction of L2 (1/n)."""

NEAR = 4
"""Chunks may be smaller than the wanted size by this factor; otherwise larger ones are chosen."""

PARTIAL_SIZE = 2
"""Maximum size of a chunk's partial results, which are written and read once, as multiple of L2."""

MIN_TILES = 8
"""Minimum number of tiles of rows that share a part of the weights."""

MIN_TASKS = 2
"""Minimum number of chunks for each core."""


def in_parts(problem: TileProblem, parts: Column) -> TileProblem:
    """Return the problem for one part of a reduction, repeated for each part."""
    return replace(problem, steps=problem.steps // parts, repeats=problem.repeats * parts)


def part_counts(problem: TileProblem, extent: int, row_extents: int, facts: CpuFacts) -> list[int]:
    """Return the numbers of equal parts into which a reduction may be divided.

    Args:
        extent: trip count of its outermost loop.
        row_extents: product of the extents of all variables along which rows may run.
    """
    vector = problem.lanes * problem.element_bytes * problem.steps
    is_deep = problem.broadcasts and vector > facts.l2 // DEEP_SHARE
    if not is_deep or problem.seen or problem.is_dot or row_extents < MIN_TILES:
        return [1]
    return [n for n in range(1, min(MAX_PARTS, extent) + 1) if extent % n == 0]


def plan_parts(problem: TileProblem, counts: list[int], facts: CpuFacts) -> tuple[TilePlan, int]:
    """Return the best tile and the minimum number of parts for which its vectors fit the cache."""
    for parts in counts[1:]:
        plan = plan_tile(in_parts(problem, parts), facts)
        tile = plan.tile
        vectors = tile.vectors * tile.lanes * problem.element_bytes * problem.steps // parts
        tiles = problem.rows * problem.spans // (tile.rows * tile.spans) * problem.repeats
        if tiles >= MIN_TILES and vectors <= facts.l2 // PART_SHARE:
            return replace(plan, columns_outside=True), parts
    return plan_tile(problem, facts), 1


@dataclass(frozen=True)
class LoopPlacement:
    """Placement of the loops between tiles relative to the loop over parts of the reduction.

    Attributes:
        outside: variables whose loops are outside of the loop over parts, outermost first.
        inside: variables whose loops are inside of it.
        chunks: variables with a loop on both sides, and the trip count of the inner one.
    """

    outside: tuple[int, ...]
    inside: tuple[int, ...]
    chunks: dict[int, int]

    @property
    def outer_variables(self) -> list[int]:
        """Variables of the loops outside of the parts, chunks included, outermost first."""
        return [*self.outside, *(v for v in self.chunks if v not in self.outside)]


def divide(space: TileSpace, choice: Choice) -> LoopPlacement:
    """Choose chunks of rows and columns that fit the caches, with at least two tasks per core."""
    facts, problem, k = space.facts, space.problem, Point(dict(choice))
    order = space.order(choice)
    extents = {v: int(space.tiles_along(v, k)) for v in order}
    columns = space.column_variable
    rows = [v for v in order if v in space.row_variables]
    inside: list[int] = []
    while rows and prod(extents[v] for v in inside) < MIN_TILES:
        inside.insert(0, rows.pop())
    if not inside:
        return LoopPlacement(tuple(order), (), {})
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
    return LoopPlacement(tuple(outside), tuple(inside), chunks)


def _chunk(extent: int, most: int) -> int:
    """Return the size of equal chunks of an extent: the largest divisor up to `most`.

    If that is much smaller than `most`, return the next larger divisor.

    Chunks of unequal sizes would need conditions in the innermost loops.
    """
    sizes = [n for n in range(1, extent + 1) if extent % n == 0]
    below = max(n for n in sizes if n <= most)
    return below if below * NEAR >= most else min((n for n in sizes if n > most), default=below)


def split_chunks(
    sch: Schedule, between: dict[int, Loop], division: LoopPlacement
) -> tuple[list[Loop], list[Loop]]:
    """Return the loops outside of the parts of a reduction, and those between tiles inside."""
    outer, tiles = dict(between), dict(between)
    for variable, size in division.chunks.items():
        outer[variable], tiles[variable] = sch.split(between[variable], factors=[None, size])
    inside = [v for v in division.outside if v in division.chunks] + list(division.inside)
    return [outer[v] for v in division.outer_variables], [tiles[v] for v in inside]
