"""Register tiles of matrix products: the number of rows and vectors computed at once.

A tile keeps `rows x vectors` accumulators in registers throughout the reduction. Each reduction
step loads `vectors` vectors of the right operand and broadcasts one element of the left operand for
each row. This cost model is used both to pack the right operand into panels of a tile's width and
to schedule the product.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from tcopt.support.arithmetic.columns import Column, ceil_div, most, where
from tcopt.support.machines.machine import LOOP, VectorUnits
from tcopt.support.memo import memo

MAX_ROWS = 8
"""Rows of the left operand may have power-of-two strides, and then fall into one set of an 8-way
cache.
"""


class MatmulTile(NamedTuple):
    """Tile of rows of the left operand by vectors of the right one; each a number or a column."""

    rows: Column
    vectors: Column


def fits(tile: MatmulTile, registers: int) -> Column:
    """Whether the accumulators, one step's vectors and one broadcast fit in registers."""
    return tile.rows * tile.vectors + tile.vectors + 1 <= registers


def step_cycles(tile: MatmulTile, units: VectorUnits) -> Column:
    """Return the cycles of one reduction step; the vectors of a panel are in L2."""
    step = units.cycles(
        products=tile.rows * tile.vectors,
        vectors=tile.vectors,
        scalars=tile.rows,
        others=LOOP,
        chain=1,
    )
    size = tile.vectors * units.vector_bits / 8
    return most(step, size / units.near_rate) + units.exposed(size, near=True)


def tile_cost(rows: int, columns: int, lanes: int, units: VectorUnits, tile: MatmulTile) -> Column:
    """Return the cycles of one reduction step over all tiles of a product, including tails.

    Args:
        rows, columns: extents of the product.
        lanes: elements per vector; the last tile of columns is computed in full.
    """
    full, rest = rows // tile.rows, rows % tile.rows
    tail = where(rest > 0, step_cycles(MatmulTile(rest, tile.vectors), units), 0.0)
    return (full * step_cycles(tile, units) + tail) * ceil_div(columns, lanes * tile.vectors)


@memo(1024)
def best_tile(
    rows: int, columns: int, lanes: int, units: VectorUnits, vectors: int | None = None
) -> MatmulTile:
    """Return the tile with the lowest cost; among those within 2%, the one with most accumulators.

    Args:
        rows, columns: extents of the product, at least 1.
        lanes: elements per vector.
        vectors: fixed number of vectors per tile, if given.
    """
    widths = range(1, min(4, ceil(columns / lanes)) + 1) if vectors is None else (vectors,)
    tiles = [MatmulTile(r, v) for v in widths for r in range(1, min(rows, MAX_ROWS) + 1)]
    tiles = [t for t in tiles if fits(t, units.registers)] or [MatmulTile(1, min(widths))]
    costs = {t: tile_cost(rows, columns, lanes, units, t) for t in tiles}
    limit = 1.02 * min(costs.values())
    return max((t for t in tiles if costs[t] <= limit), key=lambda t: (t.rows * t.vectors, t.rows))
