"""Convolutions by Winograd's minimal filtering, on plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.irdl import irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.types import AnyTensor, Array, shape_of, tensor
from tcopt.dialects.graph.packed.winograd_tiles import WinogradTilesOp, input_order, table_row
from tcopt.dialects.te import api as te


@irdl_op_definition
class WinogradPlainConvOp(WinogradTilesOp):
    """Convolution by r x r kernels, stride 1, through tiles of `tile` x `tile` outputs.

    Data is [N, C, H, W], weights are [t, t, C, O] with `t = tile + r - 1`, the result is
    [N, O, H', W']. It is `winograd_conv` for targets on which neighbours in memory are pixels; in
    transformed tensors they are tiles.
    """

    name = "graph.winograd_plain_conv"

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, O, window positions]."""
        x, w = shape_of(self.x), shape_of(self.w)
        if len(x) != 4 or len(w) != 4:
            raise VerifyException(f"data {list(x)} and weights {list(w)} do not fit tiles")
        if self.step != 1 or self.phase_count != 1:
            raise VerifyException("strides and phases need channels in blocks")
        self.check_tiles()
        if x[1] != w[2]:
            raise VerifyException(f"channels of data {list(x)} and weights {list(w)} differ")
        if self.is_whole or self.is_rounded:
            raise VerifyException("integers and rounded data need channels in blocks")
        return (tensor((x[0], w[3], *self.image_extents()), self.sum_element()),)

    def compute(self, x: Array, w: Array) -> Array:
        """Evaluate with numpy, with transforms in double precision."""
        return self.filtered(x, w)

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Return stages for the transform of rows and of columns, the contraction, and the inverse
        transforms of rows and columns."""
        (tables, _), m = self.tables, self.tile.value.data
        t, tiles = tables.extent, self.tile_count
        x, (top, side) = self.covered(x)

        def source_row(c: te.Axis, s: te.Axis, i: te.Axis, j: te.Axis) -> te.Expr:
            image, p, q = self.tile_place(s)

            def term(k: int) -> te.Expr:
                return x[image, c, p * m + (k + top), q * m + j + side]

            return table_row(tables.input, i, term, input_order(tables))

        left = te.compute((x.shape[1], tiles, t, t), source_row, name="data_rows")

        def source(i: te.Axis, j: te.Axis, c: te.Axis, s: te.Axis) -> te.Expr:
            return table_row(tables.input, j, lambda k: left[c, s, i, k], input_order(tables))

        data = te.compute((t, t, x.shape[1], tiles), source, name="data")
        rc = te.reduce_axis(x.shape[1], "rc")

        def product(i: te.Axis, j: te.Axis, o: te.Axis, s: te.Axis) -> Any:
            return te.sum(data[i, j, rc, s] * w[i, j, rc, o], axis=rc)

        sums = te.compute((t, t, self.shape[1], tiles), product, name="products")

        def result_row(o: te.Axis, s: te.Axis, i: te.Axis, j: te.Axis) -> te.Expr:
            return table_row(tables.output, i, lambda k: sums[k, j, o, s], range(t))

        right = te.compute((self.shape[1], tiles, m, t), result_row, name="result_rows")

        def output(n: te.Axis, o: te.Axis, h: te.Axis, w: te.Axis) -> te.Expr:
            s = self.tile_number(n, h // m, w // m)
            return table_row(tables.output, w % m, lambda k: right[o, s, h % m, k], range(t))

        return te.compute(self.shape, output, name="conv")
