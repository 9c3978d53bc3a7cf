"""Products with a matrix of few bits per element, with a scale for each block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.contraction.matrix_stages import matrix_stage
from tcopt.dialects.graph.core.attributes import FusionKind, Int, flag, integer
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import Indices, narrow
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    numpy_dtype,
    shape_of,
    tensor,
)
from tcopt.dialects.intrinsics.code_dots import BYTES, code_products
from tcopt.dialects.te import api as te

PANEL = 32
"""Number of columns of a panel. It is a multiple of the vector length of every supported CPU, so
programs with different numbers of rows share the weights."""

WORD = 32
"""Bits of a word, which holds successive codes of a column."""

MOST = 127
"""Largest magnitude to which data is rounded."""


@irdl_op_definition
class BlockwiseMatmulOp(GraphOp):
    """x [..., K] times a matrix [K, N] whose elements are (code - zero) * scale, summed in f32.

        %y = graph.blockwise_matmul %x, %codes, %scales {bits = 4, columns = 40}
            : tensor<1x40xf32>

    Codes are unsigned integers of 2, 4 or 8 bits. Along K they are divided into blocks with a scale
    and a zero point for each column; K is a whole number of blocks. Words [panels, blocks, words,
    32] hold the codes of 32 columns side by side, successive codes of a column from the lowest bits
    of a word. Scales and zeros are [panels, blocks, 32]. Without `zeros`, all zero points are the
    middle of the codes, 2^(bits - 1). The padding of the last panel is arbitrary.

    The matrix stays packed in memory, because a product of few rows is bound by reading it. The
    tensor expression sums the products of each block with the codes, and applies zero and scale to
    the sum:

        y[m, n] = sum over b of scale[b, n] * (sum over i of x[m, b, i] * code[b, i, n]
                                               - zero[b, n] * sum over i of x[m, b, i])

    With `rounded`, each block of x is rounded to a multiple of its largest magnitude divided by
    127, so that sums of a block are those of integers.
    """

    name = "graph.blockwise_matmul"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    codes = operand_def(TensorType)
    scales = operand_def(TensorType)
    zeros = opt_operand_def(TensorType)
    bits = prop_def(Int)
    columns = prop_def(Int)
    rounded = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        codes: SSAValue | Operation,
        scales: SSAValue | Operation,
        zeros: SSAValue | Operation | None = None,
        *,
        bits: int,
        columns: int,
        rounded: bool = False,
    ):
        operands = [x, codes, scales] if zeros is None else [x, codes, scales, zeros]
        properties = {
            "bits": integer(bits),
            "columns": integer(columns),
            "rounded": flag(rounded),
        }
        super().__init__(operands, properties)

    @property
    def per_word(self) -> int:
        """Number of codes in a word."""
        return WORD // self.bits.value.data

    @property
    def block_size(self) -> int:
        """Number of codes of a column with the same scale."""
        return shape_of(self.codes)[2] * self.per_word

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [..., N]."""
        x, codes, bits = shape_of(self.x), shape_of(self.codes), self.bits.value.data
        if bits not in (2, 4, 8):
            raise VerifyException(f"codes of {bits} bits do not fill words")
        if len(x) < 2 or not is_float(element_type(self.x)):
            raise VerifyException(f"takes floats [..., K], not {self.x.type}")
        is_words = numpy_dtype(element_type(self.codes)) == np.uint32
        if len(codes) != 4 or not is_words or codes[3] != PANEL:
            raise VerifyException(f"codes must be ui32 [panels, blocks, words, {PANEL}]")
        panels, blocks, _, _ = codes
        depth, columns = blocks * self.block_size, self.columns.value.data
        if x[-1] != depth or math.ceil(columns / PANEL) != panels:
            raise VerifyException(
                f"{self.codes.type} does not hold {x[-1]} rows, {columns} columns"
            )
        for each in (self.scales, self.zeros):
            if each is not None and shape_of(each) != (panels, blocks, PANEL):
                raise VerifyException(f"{each.type} is not one value per block and column")
        if not is_float(element_type(self.scales)):
            raise VerifyException(f"scales must be floats, not {self.scales.type}")
        return (tensor((*x[:-1], columns), element_type(self.x)),)

    def work(self) -> int:
        """Return the operation count: two operations for each product."""
        return 2 * math.prod(shape_of(self.x)) * self.columns.value.data

    def compute(self, x: Array, codes: Array, scales: Array, zeros: Array | None = None) -> Array:
        """Evaluate the op with numpy."""
        bits = self.bits.value.data
        shifts = np.arange(self.per_word, dtype=np.uint32) * np.uint32(bits)
        each = (codes[:, :, :, None] >> shifts[:, None]) & np.uint32((1 << bits) - 1)
        panels, blocks, *_ = codes.shape
        zero = (
            np.float32(1 << (bits - 1)) if zeros is None else zeros.astype(np.float32)[:, :, None]
        )
        values = each.reshape(panels, blocks, -1, PANEL).astype(np.float32) - zero
        values *= scales.astype(np.float32)[:, :, None]
        matrix = values.transpose(1, 2, 0, 3).reshape(-1, panels * PANEL)
        x = x.astype(np.float32)
        if self.rounded is not None:
            parts = x.reshape(*x.shape[:-1], blocks, -1)
            steps = np.abs(parts).max(-1, keepdims=True) * np.float32(1 / MOST)
            whole = np.rint(parts / np.where(steps == 0, np.float32(1), steps))
            x = (whole * steps).reshape(x.shape)
        return x @ matrix[:, : self.columns.value.data]

    def tensor_expression(
        self, x: te.Tensor, codes: te.Tensor, scales: te.Tensor, zeros: te.Tensor | None = None
    ) -> te.Tensor:
        """Return sums of blocks, their sum for whole panels, and a stage that drops the padding."""
        rows, (panels, blocks, *_) = self.shape[:-1], shape_of(self.codes)
        wide = panels * PANEL
        steps = None if self.rounded is None else self._steps(x)
        if steps is None:
            sums, products = self._float_sums(x, codes)
        else:
            sums, products = self._integer_sums(x, steps, codes)

        def body(*axes: te.Axis) -> Any:
            *row, n = axes
            b = te.reduce_axis(blocks, "b")
            place = (n // PANEL, b, n % PANEL)
            zero = te.const(1 << (self.bits.value.data - 1), "f32")
            if zeros is not None:
                zero = te.cast(zeros[place], "f32")
            product, total = products[(*row, b, n)], sums[(*row, b)]
            scale = te.cast(scales[place], "f32")
            if steps is not None:
                scale = scale * steps[(*row, b)]
            return te.sum((te.cast(product, "f32") - zero * te.cast(total, "f32")) * scale, axis=b)

        result = matrix_stage((*rows, wide), body)
        if wide != self.shape[-1]:
            whole = result
            result = te.compute(self.shape, lambda *axes: whole[axes], name="columns")
        return narrow(result, self.type.element_type)

    def _block(self, x: te.Tensor, row: Indices, b: te.Index, place: te.Index) -> te.Expr:
        """Return an element of a block of x."""
        return te.cast(x[(*row, b * self.block_size + place)], "f32")

    def _float_sums(self, x: te.Tensor, codes: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
        """Return the sums of the blocks of x, and of its products with codes.

        A code is multiplied where it is in its word, without a shift: a mask isolates it, and the
        factor is divided by the power of two. This is exact unless the factor underflows. The last
        code of a word is shifted, as words are signed when they are converted to floats.
        """
        panels, blocks, words, _ = shape_of(self.codes)
        bits, per = self.bits.value.data, self.per_word
        last = per - 1
        rows = (*self.shape[:-1], blocks)

        def scaled(*axes: te.Axis) -> te.Expr:
            *row, b, w, e = axes
            place = te.cast(te.index(e), "i32")
            moved = te.select(te.equal(place, last), te.const(0, "i32"), place * bits)
            power = te.cast(te.shift_left(te.const(1, "i32"), moved), "f32")
            return self._block(x, row, b, w * per + e) / power

        factors = te.compute((*rows, words, per), scaled, name="scaled")

        def block_sum(*axes: te.Axis) -> te.Reduce:
            *row, b = axes
            i = te.reduce_axis(self.block_size, "i")
            return te.sum(self._block(x, row, b, i), axis=i)

        def block_product(*axes: te.Axis) -> te.Reduce:
            *row, b, n = axes
            w, e = te.reduce_axis(words, "w"), te.reduce_axis(per, "e")
            right = te.cast(te.index((e // last) * (last * bits)), "ui32")
            left = te.cast(te.index((e - (e // last) * last) * bits), "ui32")
            mask = te.shift_left(te.const((1 << bits) - 1, "ui32"), left)
            code = te.shift_right(codes[n // PANEL, b, w, n % PANEL], right) & mask
            value = te.cast(te.cast(code, "i32"), "f32")
            return te.sum(factors[(*row, b, w, e)] * value, axis=(w, e))

        sums = te.compute(rows, block_sum, name="sums")
        return sums, te.compute((*rows, panels * PANEL), block_product, name="products")

    def _steps(self, x: te.Tensor) -> te.Tensor:
        """Return the unit to which each block of x is rounded."""

        def largest(*axes: te.Axis) -> te.Reduce:
            *row, b = axes
            i = te.reduce_axis(self.block_size, "i")
            return te.max(te.abs(self._block(x, row, b, i)), axis=i)

        rows = (*self.shape[:-1], shape_of(self.codes)[1])
        magnitude = te.compute(rows, largest, name="magnitude")
        return te.compute(rows, lambda *axes: magnitude[axes] * (1 / MOST), name="steps")

    def _integer_sums(
        self, x: te.Tensor, steps: te.Tensor, codes: te.Tensor
    ) -> tuple[te.Tensor, te.Tensor]:
        """Return the sums of the blocks of x in units of `steps`, and of its products with codes.

        The elements of x are quantised to bytes in the order [word, field, byte], where the field
        is the index of a code in its byte, from the lowest bits.
        """
        panels, blocks, words, _ = shape_of(self.codes)
        bits, per = self.bits.value.data, self.per_word
        fields = 8 // bits
        rows = (*self.shape[:-1], blocks)

        def rounded(*axes: te.Axis) -> te.Expr:
            *row, b, w, field, byte = axes
            value = self._block(x, row, b, w * per + byte * fields + field)
            step = steps[(*row, b)]
            whole = te.round(value / te.select(te.equal(step, 0.0), te.const(1, "f32"), step))
            return te.saturate(whole, -MOST, MOST, "i8")

        whole = te.compute((*rows, words, fields, BYTES), rounded, name="rounded")

        def block_sum(*axes: te.Axis) -> te.Reduce:
            extents = zip((words, fields, BYTES), "wfj", strict=True)
            inner = [te.reduce_axis(extent, name) for extent, name in extents]
            return te.sum(te.cast(whole[(*axes, *inner)], "i32"), axis=inner)

        def block_product(*axes: te.Axis) -> te.Reduce:
            *row, b, n = axes
            w, j = te.reduce_axis(words, "w"), te.reduce_axis(BYTES, "j")
            factors = [whole[(*row, b, w, field, j)] for field in range(fields)]
            word = codes[n // PANEL, b, w, n % PANEL]
            return te.sum(code_products(word, factors, j, bits), axis=(w, j))

        sums = te.compute(rows, block_sum, name="sums")
        return sums, te.compute((*rows, panels * PANEL), block_product, name="products")
