"""The data that pieces of a contraction move.

All functions work on a single choice of pieces, or on many as NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from tcopt.schedules.rules.accelerator.pieces import Pieces
from tcopt.schedules.rules.vdla.layouts import VdlaLayout
from tcopt.schedules.rules.vdla.roles import VdlaRoles
from tcopt.support.arithmetic.columns import Column, ceil_div, least, where

_MOST_PAD = 15


@dataclass(frozen=True)
class Load:
    """The transfers for one load of a piece.

    Attributes:
        entries: total number of entries, padding included.
        transfers: number of instructions.
        rows: rows of a transfer.
        columns: entries of a row.
    """

    entries: Column
    transfers: Column
    rows: Column
    columns: Column


def box_of(source: VdlaLayout, sizes: Sequence[Column]) -> list[Column]:
    """Return the extents of the part of an operand that a piece reads."""
    box: list[Column] = [1] * len(source.shape)
    for n, steps in zip(sizes, source.steps, strict=True):
        for dim, step in enumerate(steps):
            if step:
                box[dim] = box[dim] + (n - 1) * abs(step)
    return box


def load_of(source: VdlaLayout, sizes: Sequence[Column], unit: int) -> Load:
    """Return the transfers of a piece.

    Args:
        sizes: size of the piece along each variable.
        unit: number of innermost dimensions that form one entry.
    """
    box = box_of(source, sizes)[:-unit]
    columns: Column = 1
    rows: Column = 1
    transfers: Column = 1
    # Innermost dimensions that are transferred completely form one row; the next dimension with
    # more than one index forms the rows.
    is_row: Column = True
    rest = zip(box, source.shape, source.pads, source.strides, strict=False)
    for extent, size, padded, stride in reversed(list(rest)):
        is_row = is_row & (stride == 1)
        is_first = rows == 1
        transfers = where(is_row, transfers, where(is_first, transfers, transfers * extent))
        rows = where(is_row, rows, where(is_first, rows * extent, rows))
        columns = where(is_row, columns * least(extent, size), columns)
        is_row = is_row & (extent == size) & (not any(padded))
    return Load(prod(box), transfers, rows, columns)


def sizes_of(roles: VdlaRoles, tile: Pieces, *, whole_depth: Column = False) -> list[Column]:
    """Return the size of a piece along each variable."""
    sizes: list[Column] = []
    for v, extent in enumerate(roles.pattern.extents):
        size = least(tile.sizes[v], extent) if v in tile.sizes else extent
        sizes.append(where(whole_depth, extent, size) if v in roles.depth else size)
    return sizes


def entries_of(roles: VdlaRoles, tile: Pieces) -> tuple[Column, Column, Column]:
    """Return the entries of a piece's data, weights and sums.

    For operands that are loaded completely, these include room for all parts of the sum.
    """
    data = prod(box_of(roles.inputs, _room(roles, tile, tile.whole_data))[:-1])
    weights = prod(box_of(roles.kernel, _room(roles, tile, tile.whole_weights))[:-2])
    sizes = sizes_of(roles, tile)
    return data, weights, prod(sizes[v] for v in (*roles.outputs, *roles.pixels))


def _room(roles: VdlaRoles, tile: Pieces, whole: Column) -> list[Column]:
    """Return the size along each variable for which there must be room."""
    sizes = sizes_of(roles, tile)
    for v in roles.depth:
        part, extent = sizes[v], roles.pattern.extents[v]
        sizes[v] = where(whole, ceil_div(extent, part) * part, part)
    return sizes


def other_entries(roles: VdlaRoles, tile: Pieces) -> Column:
    """Return the register entries in addition to those of the sums: operands of the ALU."""
    sizes = sizes_of(roles, tile)
    tables = sum(load_of(each, sizes, 1).entries for each in roles.epilogue.tables)
    *_, sums = entries_of(roles, tile)
    return sums * roles.epilogue.registers + tables


def pixel_sizes(
    extents: Sequence[int], data: VdlaLayout, pixels: Sequence[int], variable: int
) -> list[int]:
    """Return sizes of pieces that read some data each, not only padding.

    Args:
        extents: extents of all variables.
        pixels: variables whose pieces are computed one after the other, the innermost last.
    """
    taps = box_of(data, [1 if v in pixels else n for v, n in enumerate(extents)])
    moved = [dim for dim, step in enumerate(data.steps[variable]) if step]
    if any(max(data.pads[dim]) >= taps[dim] for dim in moved):
        return [extents[variable]]
    found = piece_sizes(extents[variable])
    if not pixels or variable != pixels[-1]:
        return found
    # A narrower last piece is loaded with zeros after its rows: at most as many as a transfer may
    # have.
    step = max(abs(data.steps[variable][dim]) for dim in moved) if moved else 1
    most = _MOST_PAD - max((data.pads[dim][1] for dim in moved), default=0)
    return [n for n in found if -extents[variable] % n * step <= most]


def piece_sizes(extent: int) -> list[int]:
    """Return the sizes that divide an extent into nearly equal pieces, in ascending order."""
    return sorted({ceil(extent / pieces) for pieces in range(1, extent + 1)})
