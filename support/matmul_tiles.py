"""Register tiles of matrix products: how many rows by how many vectors are computed at once.

A tile keeps `rows x vectors` accumulators in registers through the reduction. For each step
of it, it loads `vectors` vectors of the right operand, and for each row broadcasts one element
of the left. Both who stores the right operand in panels of a tile's width and who schedules
the product ask this model.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from tcopt.support.columns import Column, ceil_div, most, where
from tcopt.support.memo import memo

MAX_ROWS = 8
"""Rows of the left operand may lie a power of two apart, and fall into the same set of a cache
of 8 ways."""

_FMA_LATENCY = 4
_FMAS = 2
_LOADS = 2
_ISSUE = 4
"""What a core does in a cycle: multiply-adds, loads, and instructions of any kind. Typical of
cores with two vector units; only ratios matter here."""

_STREAM = 0.5
"""Vectors a cycle that come from beyond the first level of cache."""


class MatmulTile(NamedTuple):
    """Rows of the left operand by vectors of the right one: numbers, or columns of many tiles."""

    rows: Column
    vectors: Column


def fits(tile: MatmulTile, registers: int) -> Column:
    """Whether accumulators, the vectors of a step and one broadcast are in registers."""
    return tile.rows * tile.vectors + tile.vectors + 1 <= registers


def step_cycles(tile: MatmulTile) -> Column:
    """Cycles that one step of the reduction takes, by the busiest resource."""
    products = tile.rows * tile.vectors
    loads = tile.rows + tile.vectors
    return most(
        products / _FMAS,
        loads / _LOADS,
        float(_FMA_LATENCY),
        (products + loads + 2) / _ISSUE,
        tile.vectors / _STREAM,
    )


def tile_cost(rows: int, columns: int, lanes: int, tile: MatmulTile) -> Column:
    """Cycles of one step of the reduction over all of a product's tiles, tails included.

    Args:
        rows, columns: the extents of the product.
        lanes: elements of a vector; the last tile of columns is computed in full.
    """
    full, rest = rows // tile.rows, rows % tile.rows
    tail = where(rest > 0, step_cycles(MatmulTile(rest, tile.vectors)), 0.0)
    return (full * step_cycles(tile) + tail) * ceil_div(columns, lanes * tile.vectors)


@memo(1024)
def best_tile(
    rows: int, columns: int, lanes: int, registers: int, vectors: int | None = None
) -> MatmulTile:
    """The tile of lowest cost; among those within 2% of it, the one of most accumulators.

    Args:
        rows, columns: the extents of the product, at least 1.
        lanes: elements of a vector.
        registers: vector registers.
        vectors: the tile's vectors, where they are given.
    """
    widths = range(1, min(4, ceil(columns / lanes)) + 1) if vectors is None else (vectors,)
    tiles = [MatmulTile(r, v) for v in widths for r in range(1, min(rows, MAX_ROWS) + 1)]
    tiles = [t for t in tiles if fits(t, registers)] or [MatmulTile(1, min(widths))]
    costs = {t: tile_cost(rows, columns, lanes, t) for t in tiles}
    limit = 1.02 * min(costs.values())
    return max((t for t in tiles if costs[t] <= limit), key=lambda t: (t.rows * t.vectors, t.rows))
