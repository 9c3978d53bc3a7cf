"""Convolutions by Winograd's minimal filtering, with channels in blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, i16, i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Int, integer
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import in_group
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    numpy_dtype,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.packed.winograd_tiles import (
    ONE,
    WinogradTilesOp,
    exact_division,
    input_order,
    table_row,
    tables_for,
)
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.winograd_tables import Tables


@irdl_op_definition
class WinogradWeightsOp(GraphOp):
    """Transform filters [O / b, C / a, k, k, a, b] for `winograd_conv`: G g G^T.

    The result is [t, t, O / b, C / a, a, b] with `t = tile + k - 1`. With `phases`, the taps of the
    phases are concatenated, and `t = phases * (tile + k / phases - 1)`. Constants are transformed
    in double precision and rounded once. 16-bit integers are transformed by an integer matrix, and
    wrap around.
    """

    name = "graph.winograd_weights"
    PACKS: ClassVar[bool] = True

    w = operand_def(TensorType)
    tile = prop_def(Int)
    phases = prop_def(Int, default_value=ONE)
    result = result_def(TensorType)

    def __init__(self, w: SSAValue | Operation, *, tile: int, phases: int = 1):
        super().__init__([w], {"tile": integer(tile), "phases": integer(phases)})

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [t, t, O / b, C / a, a, b]."""
        shape, phases = shape_of(self.w), self.phases.value.data
        if len(shape) != 6 or shape[2] != shape[3]:
            raise VerifyException(f"weights {list(shape)} are not [O / b, C / a, k, k, a, b]")
        if phases < 1 or shape[2] % phases:
            raise VerifyException(f"{shape[2]} taps do not split into {phases} phases")
        extent, element = self.tables.extent, element_type(self.w)
        return (tensor((extent, extent, shape[0], shape[1], *shape[4:]), element),)

    @property
    def tables(self) -> Tables:
        """Transformation matrices, applied to each side of the filter."""
        phases = self.phases.value.data
        whole = element_type(self.w) == i16
        return tables_for(self.tile, shape_of(self.w)[2] // phases, phases, whole=whole)

    def compute(self, w: Array) -> Array:
        """Evaluate with numpy, in double precision."""
        table = np.array(self.tables.weight)
        both = np.kron(table, table)
        (extent, taps), lanes = table.shape, math.prod(w.shape[4:])
        outer, inner = w.shape[:2], w.shape[4:]
        dtype = numpy_dtype(element_type(self.w))
        result = np.empty((extent * extent, *outer, lanes), dtype)
        # Processing one block at a time keeps temporaries small. Products of this size also run in
        # this thread, while large ones would wait for cores that may be busy.
        for block in range(outer[0]):
            filters = w[block].reshape(outer[1], taps * taps, lanes).astype(np.float64)
            products = (both @ filters).swapaxes(0, 1)
            result[:, block] = products.astype(np.int64) if dtype.kind == "i" else products
        return result.reshape(extent, extent, *outer, *inner)

    def tensor_expression(self, w: te.Tensor) -> te.Tensor:
        """Return one stage for each side of the filter."""
        table = self.tables.weight
        o, c, taps, _, a, b = w.shape
        extent = len(table)

        def row(i: te.Axis, j: te.Axis, o: te.Axis, c: te.Axis, a: te.Axis, b: te.Axis) -> te.Expr:
            return table_row(table, i, lambda k: w[o, c, k, j, a, b], range(taps))

        rows = te.compute((extent, taps, o, c, a, b), row, name="filter_rows")

        def whole(
            i: te.Axis, j: te.Axis, o: te.Axis, c: te.Axis, a: te.Axis, b: te.Axis
        ) -> te.Expr:
            return table_row(table, j, lambda k: rows[i, k, o, c, a, b], range(taps))

        return te.compute(self.shape, whole, name="filters")


@irdl_op_definition
class WinogradConvOp(WinogradTilesOp):
    """Convolution through transformed tiles of `tile` x `tile` outputs.

    Data is [N, C / a, H, W, a], weights are produced by `winograd_weights`, or are
    [t, t, O / b, C / a, a / g, b, g] with g adjacent channels for instructions that add g products
    at once; the result is [N, O / b, H', W', b]. For kernels of r x r, a tile of t x t inputs, t =
    tile + r - 1, is transformed to t x t values. At each position of the tile, channels are
    contracted as in a matrix product, and the results are transformed to outputs. That takes t^2
    products where a direct convolution takes (r tile)^2, and rounds differently: see
    docs/accuracy.md.

    Integers are i16, and results i32. Matrices then contain integers, so that the outputs of a tile
    are a known multiple of the results. Transformed data wraps around at 16 bits, sums at 32.
    Results are exact if transforms fit in 16 bits and the results, times the greatest power of two
    that divides the multiple, fit in 32.

    If data is f32 and weights are bf16 or f16, transformed data is rounded to the type of the
    weights. Products are summed in f32, which is the type of the result.

    With `stride` s, every s-th element of the data in each direction is a channel of its own: the
    elements of block c from (u, v) are block (c s + u) s + v. Weights are for these channels, and
    the convolution has stride 1 and kernels of r x r on them.

    With `phases`, the op is a transposed convolution: in each spatial dimension, every phases-th
    element from the j-th is a convolution of the data by taps of its own, starting at
    `(j + start) // phases`. A tile is `tile` elements of each phase, and there are t products for
    each, in the order of `winograd_weights`.
    """

    name = "graph.winograd_conv"

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, O / b, window positions, b]."""
        x, w = shape_of(self.x), shape_of(self.w)
        if len(x) != 5 or len(w) not in (6, 7):
            raise VerifyException(f"data {list(x)} and weights {list(w)} do not fit tiles")
        self.check_tiles()
        if (x[1] * self.step**2, x[4]) != (w[3], w[4] * self.group):
            raise VerifyException(f"channels of data {list(x)} and weights {list(w)} differ")
        shape = (x[0], w[2], *self.image_extents(), w[5])
        return (tensor(shape, self.sum_element()),)

    @property
    def group(self) -> int:
        """Number of adjacent input channels in weights, for dot-product instructions."""
        shape = shape_of(self.w)
        return shape[6] if len(shape) == 7 else 1

    def compute(self, x: Array, w: Array) -> Array:
        """Evaluate with numpy, with transforms in double precision."""
        if self.group > 1:
            w = np.moveaxis(w, 6, 5).reshape(*w.shape[:4], -1, w.shape[5])
        flat = np.moveaxis(x, 4, 2).reshape(x.shape[0], -1, *x.shape[2:4])
        # Channels in the order of `filtered`: those of one position within the stride are adjacent.
        places = w.reshape(*w.shape[:3], x.shape[1], self.step**2, *w.shape[4:])
        weights = places.transpose(0, 1, 4, 3, 5, 2, 6).reshape(
            *w.shape[:2], -1, w.shape[2] * w.shape[5]
        )
        images, blocks, *places, lanes = self.shape
        image = self.filtered(flat, weights).reshape(images, blocks, lanes, *places)
        return np.moveaxis(image, 2, 4)

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Return stages for the transform of rows and of columns, the contraction, and the inverse
        transforms of rows and columns."""
        (down, across), tile, step, m = self.tables, self.tile.value.data, self.step, self.outputs
        t, tiles = down.extent, self.tile_count
        blocks, lanes = self.shape[1], self.shape[4]
        x, (top, side) = self.covered(x)
        channels = x.shape[1] * step**2

        def source_row(c: te.Axis, s: te.Axis, i: te.Axis, j: te.Axis, a: te.Axis) -> te.Expr:
            image, p, q = self.tile_place(s)

            def term(k: int) -> te.Expr:
                if step == 1:
                    return x[image, c, p * tile + (k + top), q * tile + j + side, a]
                u, v = c // step % step, c % step
                row = p * (tile * step) + (k * step + top) + u
                return x[image, c // step**2, row, q * (tile * step) + j * step + side + v, a]

            return table_row(down.input, i, term, input_order(down))

        shape = (channels, tiles, t, across.reach, x.shape[4])
        left = te.compute(shape, source_row, name="data_rows")

        def source(i: te.Axis, j: te.Axis, c: te.Axis, s: te.Axis, a: te.Axis) -> te.Expr:
            row = table_row(across.input, j, lambda k: left[c, s, i, k, a], input_order(across))
            return te.cast(row, element_type(self.w)) if self.is_rounded else row

        data = te.compute((t, t, channels, tiles, x.shape[4]), source, name="data")
        rc, ra = te.reduce_axis(channels, "rc"), te.reduce_axis(x.shape[4], "ra")

        def product(i: te.Axis, j: te.Axis, s: te.Axis, o: te.Axis, b: te.Axis) -> Any:
            weight = w[(i, j, o, rc, *in_group(ra, b, self.group))]
            return te.sum(self._wide(data[i, j, rc, s, ra]) * self._wide(weight), axis=[rc, ra])

        sums = te.compute((t, t, tiles, blocks, lanes), product, name="products")

        def result_row(s: te.Axis, o: te.Axis, i: te.Axis, j: te.Axis, b: te.Axis) -> te.Expr:
            return table_row(down.output, i, lambda k: sums[k, j, s, o, b], range(t))

        right = te.compute((tiles, blocks, m, t, lanes), result_row, name="result_rows")

        def output(n: te.Axis, o: te.Axis, h: te.Axis, w: te.Axis, b: te.Axis) -> te.Expr:
            s = self.tile_number(n, h // m, w // m)
            row = table_row(across.output, w % m, lambda k: right[s, o, h % m, k, b], range(t))
            return self._quotient(row)

        return te.compute(self.shape, output, name="conv")

    def _wide(self, factor: te.Expr) -> te.Expr:
        """Convert a factor to the type in which products are summed."""
        return te.cast(factor, self.sum_element())

    def _quotient(self, output: te.Expr) -> te.Expr:
        """Divide an output of a tile by the known multiple of the results."""
        if not self.is_whole:
            return output
        inverse, shift = exact_division(self.multiple)
        if inverse != 1:
            output = output * te.const(inverse, i32)
        return te.shift_right(output, shift) if shift else output
