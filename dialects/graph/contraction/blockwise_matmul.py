"""Products with a matrix of few bits per element, with a scale for each block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.contraction.matrix_stages import matrix_stage
from tcopt.dialects.graph.core.attributes import FusionKind, Int, integer
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
from tcopt.dialects.te import api as te

PANEL = 32
"""Number of columns of a panel. It is a multiple of the vector length of every supported CPU, so
programs with different numbers of rows share the weights."""

WORD = 32
"""Bits of a word, which holds successive codes of a column."""


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
    """

    name = "graph.blockwise_matmul"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    codes = operand_def(TensorType)
    scales = operand_def(TensorType)
    zeros = opt_operand_def(TensorType)
    bits = prop_def(Int)
    columns = prop_def(Int)
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
    ):
        operands = [x, codes, scales] if zeros is None else [x, codes, scales, zeros]
        super().__init__(operands, {"bits": integer(bits), "columns": integer(columns)})

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
        return x.astype(np.float32) @ matrix[:, : self.columns.value.data]

    def tensor_expression(
        self, x: te.Tensor, codes: te.Tensor, scales: te.Tensor, zeros: te.Tensor | None = None
    ) -> te.Tensor:
        """Return sums of blocks, their sum for whole panels, and a stage that drops the padding."""
        rows, (panels, blocks, words, _) = self.shape[:-1], shape_of(self.codes)
        bits, per, size = self.bits.value.data, self.per_word, self.block_size
        wide = panels * PANEL

        def data(row: Indices, b: te.Index, place: te.Index) -> te.Expr:
            return te.cast(x[(*row, b * size + place)], "f32")

        def block_sum(*axes: te.Axis) -> te.Reduce:
            *row, b = axes
            i = te.reduce_axis(size, "i")
            return te.sum(data(row, b, i), axis=i)

        def block_product(*axes: te.Axis) -> te.Reduce:
            *row, b, n = axes
            w, e = te.reduce_axis(words, "w"), te.reduce_axis(per, "e")
            word = codes[n // PANEL, b, w, n % PANEL]
            shifted = te.shift_right(word, te.cast(te.index(e * bits), "ui32"))
            code = te.cast(te.cast(shifted & ((1 << bits) - 1), "i32"), "f32")
            return te.sum(data(row, b, w * per + e) * code, axis=(w, e))

        sums = te.compute((*rows, blocks), block_sum, name="sums")
        products = te.compute((*rows, blocks, wide), block_product, name="products")

        def body(*axes: te.Axis) -> Any:
            *row, n = axes
            b = te.reduce_axis(blocks, "b")
            place = (n // PANEL, b, n % PANEL)
            zero = te.const(1 << (bits - 1), "f32")
            if zeros is not None:
                zero = te.cast(zeros[place], "f32")
            centred = products[(*row, b, n)] - zero * sums[(*row, b)]
            return te.sum(centred * te.cast(scales[place], "f32"), axis=b)

        result = matrix_stage((*rows, wide), body)
        if wide != self.shape[-1]:
            whole = result
            result = te.compute(self.shape, lambda *axes: whole[axes], name="columns")
        return narrow(result, self.type.element_type)
