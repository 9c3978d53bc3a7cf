"""Convolutions with kernels of 3x3 by Winograd's minimal filtering, channels in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import FusionKind, Int, Ints, integer
from tcopt.dialects.graph.borders import Border
from tcopt.dialects.graph.elementwise import same_element_type
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import (
    AnyTensor,
    Array,
    element_type,
    numpy_dtype,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.windows import Window, view_windows, window_properties
from tcopt.dialects.te import api as te
from tcopt.support.winograd_tables import TAPS, TILES, Matrix, Tables, winograd_tables


def _tables(tile: Int) -> Tables:
    """The matrices of a tile; VerifyException if there are none."""
    extent = tile.value.data
    if extent not in TILES:
        known = ", ".join(map(str, TILES))
        raise VerifyException(f"tile = {extent} is not one of {known}")
    return winograd_tables(extent)


@irdl_op_definition
class WinogradWeightsOp(GraphOp):
    """Filters [O / b, C / a, 3, 3, a, b] as `winograd_conv` takes them: G g G^T.

    The result is [t, t, O / b, C / a, a, b] with `t = tile + 2`. Constants are transformed in
    double precision and rounded once.
    """

    name = "graph.winograd_weights"
    PACKS: ClassVar[bool] = True

    w = operand_def(TensorType)
    tile = prop_def(Int)
    result = result_def(TensorType)

    def __init__(self, w: SSAValue | Operation, *, tile: int):
        super().__init__([w], {"tile": integer(tile)})

    def infer(self) -> Sequence[AnyTensor]:
        """[t, t, O / b, C / a, a, b]."""
        shape, extent = shape_of(self.w), _tables(self.tile).extent
        if len(shape) != 6 or shape[2:4] != (TAPS, TAPS):
            raise VerifyException(f"weights {list(shape)} are not [O / b, C / a, 3, 3, a, b]")
        element = element_type(self.w)
        return (tensor((extent, extent, shape[0], shape[1], *shape[4:]), element),)

    def compute(self, w: Array) -> Array:
        """The value by numpy, in double precision."""
        table = np.array(_tables(self.tile).weight)
        both = np.kron(table, table)
        extent, lanes = len(table), math.prod(w.shape[4:])
        outer, inner = w.shape[:2], w.shape[4:]
        dtype = numpy_dtype(element_type(self.w))
        result = np.empty((extent * extent, *outer, lanes), dtype)
        # A block at a time keeps what is between small; products of this size run in this
        # thread, where a large one would wait for cores that may be busy.
        for block in range(outer[0]):
            filters = w[block].reshape(outer[1], TAPS * TAPS, lanes).astype(np.float64)
            result[:, block] = (both @ filters).swapaxes(0, 1)
        return result.reshape(extent, extent, *outer, *inner)

    def tensor_expression(self, w: te.Tensor) -> te.Tensor:
        """A stage for each side of the filter."""
        table = _tables(self.tile).weight
        o, c, _, _, a, b = w.shape
        extent = len(table)

        def row(i: te.Axis, j: te.Axis, o: te.Axis, c: te.Axis, a: te.Axis, b: te.Axis) -> te.Expr:
            return _row(table, i, lambda k: w[o, c, k, j, a, b], range(TAPS))

        rows = te.compute((extent, TAPS, o, c, a, b), row, name="filter_rows")

        def whole(
            i: te.Axis, j: te.Axis, o: te.Axis, c: te.Axis, a: te.Axis, b: te.Axis
        ) -> te.Expr:
            return _row(table, j, lambda k: rows[i, k, o, c, a, b], range(TAPS))

        return te.compute(self.shape, whole, name="filters")


@irdl_op_definition
class WinogradConvOp(GraphOp):
    """Convolution by 3x3 kernels, stride 1, through tiles of `tile` x `tile` outputs.

    Data is [N, C / a, H, W, a], weights are those of `winograd_weights`, the result is
    [N, O / b, H', W', b]. A tile of t x t inputs, t = tile + 2, is transformed to as many
    numbers; at each of their places channels are contracted as in a matrix product, and the
    results are transformed to outputs. That takes t^2 products where a direct convolution takes
    9 tile^2, and rounds differently: see docs/accuracy.md.
    """

    name = "graph.winograd_conv"
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

    def infer(self) -> Sequence[AnyTensor]:
        """[N, O / b, window positions, b]."""
        x, w, extent = shape_of(self.x), shape_of(self.w), _tables(self.tile).extent
        if len(x) != 5 or len(w) != 6 or w[:2] != (extent, extent):
            raise VerifyException(f"data {list(x)} and weights {list(w)} do not fit tiles")
        if (x[1], x[4]) != (w[3], w[4]):
            raise VerifyException(f"channels of data {list(x)} and weights {list(w)} differ")
        output = self.window.output(x[2:4])
        return (tensor((x[0], w[2], *output, w[5]), same_element_type(self.x, self.w)),)

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
        return Border.spatial([max(0, before) for before in low], high, 5)

    def inside_border(self, x: SSAValue, border: Border) -> WinogradConvOp:
        """The convolution with pads less the border, negative where that is wider."""
        window = self.window
        low = [own - there for own, there in zip(window.low, border.low[2:4], strict=True)]
        high = [own - there for own, there in zip(window.high, border.high[2:4], strict=True)]
        return WinogradConvOp(x, self.w, tile=self.tile.value.data, pads=[*low, *high])

    def work(self) -> int:
        """Two operations for each product of the contraction."""
        w = shape_of(self.w)
        rows, columns = self.tiles
        return 2 * math.prod(w) * self.shape[0] * rows * columns

    def compute(self, x: Array, w: Array) -> Array:
        """The value by numpy, transforms in double precision."""
        tables, extent, window = _tables(self.tile), self.tile.value.data, self.window
        rows, columns = self.tiles
        images, blocks, _, _, lanes = self.shape
        flat = np.moveaxis(x, 4, 2).reshape(x.shape[0], -1, *x.shape[2:4])
        flat = flat[(..., *(slice(max(0, -low), None) for low in window.low))]
        size, starts = self.reach, [max(0, low) for low in window.low]
        ends = zip(size, starts, flat.shape[2:], strict=True)
        widths = [(0, 0), (0, 0), *((low, max(n - low - have, 0)) for n, low, have in ends)]
        padded = np.pad(flat, widths)[:, :, : size[0], : size[1]]
        span = Window.of((tables.extent,) * 2, None, None, None)
        count = (size[0] - tables.extent + 1, size[1] - tables.extent + 1)
        views = view_windows(padded, span, count, 0)[:, :, ::extent, ::extent]
        bt, at = np.array(tables.input), np.array(tables.output)
        data = np.einsum("ik,jl,ncpqkl->ijnpqc", bt, bt, views, optimize=True)
        data = data.reshape(tables.extent, tables.extent, -1, flat.shape[1])
        weights = np.moveaxis(w, 2, 4).reshape(*w.shape[:2], flat.shape[1], -1)
        sums = np.matmul(data.astype(x.dtype), weights)
        tiles = np.einsum("ik,jl,kltc->tcij", at, at, sums, optimize=True)
        tiles = tiles.reshape(images, rows, columns, blocks, lanes, extent, extent)
        image = tiles.transpose(0, 3, 1, 5, 2, 6, 4)
        image = image.reshape(images, blocks, rows * extent, columns * extent, lanes)
        return image[:, :, : self.shape[2], : self.shape[3]]

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Transform of rows, of columns, the contraction, and back: rows, then columns."""
        tables, m = _tables(self.tile), self.tile.value.data
        t = tables.extent
        rows, columns = self.tiles
        images, blocks, _, _, lanes = self.shape
        per_image = rows * columns
        x, (top, side) = self._covered(x)
        # The last column of the table holds ones: sums that start there multiply least.
        taps = range(t - 1, -1, -1)

        def source_row(c: te.Axis, s: te.Axis, i: te.Axis, j: te.Axis, a: te.Axis) -> te.Expr:
            image, p, q = s // per_image, s % per_image // columns, s % columns
            return _row(
                tables.input,
                i,
                lambda k: x[image, c, p * m + (k + top), q * m + j + side, a],
                taps,
            )

        tiles = images * per_image
        left = te.compute((x.shape[1], tiles, t, t, x.shape[4]), source_row, name="data_rows")

        def source(i: te.Axis, j: te.Axis, c: te.Axis, s: te.Axis, a: te.Axis) -> te.Expr:
            return _row(tables.input, j, lambda k: left[c, s, i, k, a], taps)

        data = te.compute((t, t, x.shape[1], tiles, x.shape[4]), source, name="data")
        rc, ra = te.reduce_axis(x.shape[1], "rc"), te.reduce_axis(x.shape[4], "ra")

        def product(i: te.Axis, j: te.Axis, s: te.Axis, o: te.Axis, b: te.Axis) -> Any:
            return te.sum(data[i, j, rc, s, ra] * w[i, j, o, rc, ra, b], axis=[rc, ra])

        sums = te.compute((t, t, tiles, blocks, lanes), product, name="products")

        def result_row(s: te.Axis, o: te.Axis, i: te.Axis, j: te.Axis, b: te.Axis) -> te.Expr:
            return _row(tables.output, i, lambda k: sums[k, j, s, o, b], range(t))

        right = te.compute((tiles, blocks, m, t, lanes), result_row, name="result_rows")

        def output(n: te.Axis, o: te.Axis, h: te.Axis, w: te.Axis, b: te.Axis) -> te.Expr:
            s = (n * rows + h // m) * columns + w // m
            return _row(tables.output, w % m, lambda k: right[s, o, h % m, k, b], range(t))

        return te.compute(self.shape, output, name="conv")

    def _covered(self, x: te.Tensor) -> tuple[te.Tensor, tuple[int, int]]:
        """Data that all tiles lie inside of, and where the first one starts.

        That is x, or a stage with zeros around it.
        """
        low, size = self.window.low, self.reach
        if not self.copies_to_pad:
            return x, (-low[0], -low[1])

        def inside(n: te.Axis, c: te.Axis, h: te.Axis, w: te.Axis, a: te.Axis) -> te.Expr:
            return x.read((n, c, h - low[0], w - low[1], a), default=0)

        return te.compute((*x.shape[:2], *size, x.shape[4]), inside, name="pad"), (0, 0)


def _row(
    table: Matrix,
    row: te.Index,
    term: Callable[[int], te.Expr],
    order: Sequence[int],
) -> te.Expr:
    """The product of a row of a table with `term(0), term(1), ...`, summed in an order."""
    return reduce(add, [te.scale(term(k), table, row, k) for k in order])
