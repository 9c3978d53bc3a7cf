"""Convolutions with kernels of 3x3 by Winograd's minimal filtering, channels in blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import Int, integer
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
from tcopt.dialects.graph.winograd_tiles import WinogradTilesOp, table_row, tables_for
from tcopt.dialects.te import api as te
from tcopt.support.winograd_tables import TAPS


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
        shape, extent = shape_of(self.w), tables_for(self.tile).extent
        if len(shape) != 6 or shape[2:4] != (TAPS, TAPS):
            raise VerifyException(f"weights {list(shape)} are not [O / b, C / a, 3, 3, a, b]")
        element = element_type(self.w)
        return (tensor((extent, extent, shape[0], shape[1], *shape[4:]), element),)

    def compute(self, w: Array) -> Array:
        """The value by numpy, in double precision."""
        table = np.array(tables_for(self.tile).weight)
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
        table = tables_for(self.tile).weight
        o, c, _, _, a, b = w.shape
        extent = len(table)

        def row(i: te.Axis, j: te.Axis, o: te.Axis, c: te.Axis, a: te.Axis, b: te.Axis) -> te.Expr:
            return table_row(table, i, lambda k: w[o, c, k, j, a, b], range(TAPS))

        rows = te.compute((extent, TAPS, o, c, a, b), row, name="filter_rows")

        def whole(
            i: te.Axis, j: te.Axis, o: te.Axis, c: te.Axis, a: te.Axis, b: te.Axis
        ) -> te.Expr:
            return table_row(table, j, lambda k: rows[i, k, o, c, a, b], range(TAPS))

        return te.compute(self.shape, whole, name="filters")


@irdl_op_definition
class WinogradConvOp(WinogradTilesOp):
    """Convolution by 3x3 kernels, stride 1, through tiles of `tile` x `tile` outputs.

    Data is [N, C / a, H, W, a], weights are those of `winograd_weights`, the result is
    [N, O / b, H', W', b]. A tile of t x t inputs, t = tile + 2, is transformed to as many
    numbers; at each of their places channels are contracted as in a matrix product, and the
    results are transformed to outputs. That takes t^2 products where a direct convolution takes
    9 tile^2, and rounds differently: see docs/accuracy.md.
    """

    name = "graph.winograd_conv"

    def infer(self) -> Sequence[AnyTensor]:
        """[N, O / b, window positions, b]."""
        x, w, extent = shape_of(self.x), shape_of(self.w), tables_for(self.tile).extent
        if len(x) != 5 or len(w) != 6 or w[:2] != (extent, extent):
            raise VerifyException(f"data {list(x)} and weights {list(w)} do not fit tiles")
        if (x[1], x[4]) != (w[3], w[4]):
            raise VerifyException(f"channels of data {list(x)} and weights {list(w)} differ")
        output = self.window.output(x[2:4])
        return (tensor((x[0], w[2], *output, w[5]), same_element_type(self.x, self.w)),)

    def compute(self, x: Array, w: Array) -> Array:
        """The value by numpy, transforms in double precision."""
        flat = np.moveaxis(x, 4, 2).reshape(x.shape[0], -1, *x.shape[2:4])
        weights = np.moveaxis(w, 2, 4).reshape(*w.shape[:2], flat.shape[1], -1)
        images, blocks, *places, lanes = self.shape
        image = self.filtered(flat, weights).reshape(images, blocks, lanes, *places)
        return np.moveaxis(image, 2, 4)

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Transform of rows, of columns, the contraction, and back: rows, then columns."""
        tables, m = tables_for(self.tile), self.tile.value.data
        t = tables.extent
        blocks, lanes = self.shape[1], self.shape[4]
        x, (top, side) = self.covered(x)

        def source_row(c: te.Axis, s: te.Axis, i: te.Axis, j: te.Axis, a: te.Axis) -> te.Expr:
            image, p, q = self.tile_place(s)

            def term(k: int) -> te.Expr:
                return x[image, c, p * m + (k + top), q * m + j + side, a]

            return table_row(tables.input, i, term, self.taps)

        tiles = self.tile_count
        left = te.compute((x.shape[1], tiles, t, t, x.shape[4]), source_row, name="data_rows")

        def source(i: te.Axis, j: te.Axis, c: te.Axis, s: te.Axis, a: te.Axis) -> te.Expr:
            return table_row(tables.input, j, lambda k: left[c, s, i, k, a], self.taps)

        data = te.compute((t, t, x.shape[1], tiles, x.shape[4]), source, name="data")
        rc, ra = te.reduce_axis(x.shape[1], "rc"), te.reduce_axis(x.shape[4], "ra")

        def product(i: te.Axis, j: te.Axis, s: te.Axis, o: te.Axis, b: te.Axis) -> Any:
            return te.sum(data[i, j, rc, s, ra] * w[i, j, o, rc, ra, b], axis=[rc, ra])

        sums = te.compute((t, t, tiles, blocks, lanes), product, name="products")

        def result_row(s: te.Axis, o: te.Axis, i: te.Axis, j: te.Axis, b: te.Axis) -> te.Expr:
            return table_row(tables.output, i, lambda k: sums[k, j, s, o, b], range(t))

        right = te.compute((tiles, blocks, m, t, lanes), result_row, name="result_rows")

        def output(n: te.Axis, o: te.Axis, h: te.Axis, w: te.Axis, b: te.Axis) -> te.Expr:
            s = self.tile_number(n, h // m, w // m)
            return table_row(tables.output, w % m, lambda k: right[s, o, h % m, k, b], range(t))

        return te.compute(self.shape, output, name="conv")
