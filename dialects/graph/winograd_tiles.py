"""What convolutions through transformed tiles have in common, whatever the layout of channels."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import ClassVar, Self

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import FusionKind, Int, Ints, integer
from tcopt.dialects.graph.borders import Border
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import Array, shape_of
from tcopt.dialects.graph.windows import Window, view_windows, window_properties
from tcopt.dialects.te import api as te
from tcopt.support.winograd_tables import TAPS, TILES, Matrix, Tables, winograd_tables


def tables_for(tile: Int) -> Tables:
    """The matrices of a tile; VerifyException if there are none."""
    extent = tile.value.data
    if extent not in TILES:
        known = ", ".join(map(str, TILES))
        raise VerifyException(f"tile = {extent} is not one of {known}")
    return winograd_tables(extent)


def table_row(
    table: Matrix,
    row: te.Index,
    term: Callable[[int], te.Expr],
    order: Sequence[int],
) -> te.Expr:
    """The product of a row of a table with `term(0), term(1), ...`, summed in an order."""
    return reduce(add, [te.scale(term(k), table, row, k) for k in order])


class WinogradTilesOp(GraphOp, ABC):
    """Operands, window and tiles; dimensions 2 and 3 of data and result are the image's."""

    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    tile = prop_def(Int)
    pads = opt_prop_def(Ints)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        w: SSAValue | Operation,
        *,
        tile: int,
        pads: Sequence[int] | None = None,
    ):
        padding = window_properties(None, pads, None)["pads"]
        super().__init__([x, w], {"tile": integer(tile), "pads": padding})

    @property
    def window(self) -> Window:
        """The window."""
        return Window.of((TAPS, TAPS), None, self.pads, None, crops=True)

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles that cover the outputs of an image."""
        extent = self.tile.value.data
        return math.ceil(self.shape[2] / extent), math.ceil(self.shape[3] / extent)

    @property
    def tile_count(self) -> int:
        """Tiles of all images."""
        return self.shape[0] * math.prod(self.tiles)

    @property
    def taps(self) -> Sequence[int]:
        """The order in which rows of the input's table are summed."""
        # The last column of the table holds ones: sums that start there multiply least.
        return range(tables_for(self.tile).extent - 1, -1, -1)

    @property
    def reach(self) -> tuple[int, int]:
        """Extents of the data that whole tiles read, from where the first one starts."""
        rows, columns = self.tiles
        return rows * self.tile.value.data + TAPS - 1, columns * self.tile.value.data + TAPS - 1

    @property
    def copies_to_pad(self) -> bool:
        """Whether tiles reach beyond the data."""
        border = self.border(False)
        return border is not None and not border.is_empty

    def border(self, nonnegative: bool) -> Border | None:
        """What whole tiles read beyond the data."""
        low, extents = self.window.low, shape_of(self.x)[2:4]
        rows = zip(self.reach, low, extents, strict=True)
        high = [max(0, size - before - extent) for size, before, extent in rows]
        return Border.spatial([max(0, before) for before in low], high, len(self.shape))

    def inside_border(self, x: SSAValue, border: Border) -> Self:
        """The convolution with pads less the border, negative where that is wider."""
        window = self.window
        low = [own - there for own, there in zip(window.low, border.low[2:4], strict=True)]
        high = [own - there for own, there in zip(window.high, border.high[2:4], strict=True)]
        return type(self)(x, self.w, tile=self.tile.value.data, pads=[*low, *high])

    def work(self) -> int:
        """Two operations for each product of the contraction."""
        return 2 * math.prod(shape_of(self.w)) * self.tile_count

    def filtered(self, x: Array, w: Array) -> Array:
        """By numpy, for data [N, C, H, W] and weights [t, t, C, O]: [N, O, H', W']."""
        tables, extent = tables_for(self.tile), self.tile.value.data
        rows, columns = self.tiles
        size, starts = self.reach, [max(0, low) for low in self.window.low]
        x = x[(..., *(slice(max(0, -low), None) for low in self.window.low))]
        ends = zip(size, starts, x.shape[2:], strict=True)
        widths = [(0, 0), (0, 0), *((low, max(n - low - have, 0)) for n, low, have in ends)]
        padded = np.pad(x, widths)[:, :, : size[0], : size[1]]
        span = Window.of((tables.extent,) * 2, None, None, None)
        count = (size[0] - tables.extent + 1, size[1] - tables.extent + 1)
        views = view_windows(padded, span, count, 0)[:, :, ::extent, ::extent]
        bt, at = np.array(tables.input), np.array(tables.output)
        data = np.einsum("ik,jl,ncpqkl->ijnpqc", bt, bt, views, optimize=True)
        data = data.reshape(tables.extent, tables.extent, -1, x.shape[1])
        sums = np.matmul(data.astype(x.dtype), w)
        tiles = np.einsum("ik,jl,kltc->tcij", at, at, sums, optimize=True)
        tiles = tiles.reshape(x.shape[0], rows, columns, -1, extent, extent)
        image = tiles.transpose(0, 3, 1, 4, 2, 5)
        image = image.reshape(x.shape[0], -1, rows * extent, columns * extent)
        return image[:, :, : self.shape[2], : self.shape[3]]

    def tile_place(self, number: te.Index) -> tuple[te.Index, te.Index, te.Index]:
        """A tile's image, row and column."""
        rows, columns = self.tiles
        per_image = rows * columns
        return number // per_image, number % per_image // columns, number % columns

    def tile_number(self, image: te.Index, row: te.Index, column: te.Index) -> te.Index:
        """The number of a tile."""
        rows, columns = self.tiles
        return (image * rows + row) * columns + column

    def covered(self, x: te.Tensor) -> tuple[te.Tensor, tuple[int, int]]:
        """Data that all tiles lie inside of, and where the first one starts.

        That is x, or a stage with zeros around it.
        """
        low, size = self.window.low, self.reach
        if not self.copies_to_pad:
            return x, (-low[0], -low[1])

        def blocks(n: te.Axis, c: te.Axis, h: te.Axis, w: te.Axis, a: te.Axis) -> te.Expr:
            return x.read((n, c, h - low[0], w - low[1], a), default=0)

        def plain(n: te.Axis, c: te.Axis, h: te.Axis, w: te.Axis) -> te.Expr:
            return x.read((n, c, h - low[0], w - low[1]), default=0)

        inside = blocks if len(x.shape) == 5 else plain
        return te.compute((*x.shape[:2], *size, *x.shape[4:]), inside, name="pad"), (0, 0)
