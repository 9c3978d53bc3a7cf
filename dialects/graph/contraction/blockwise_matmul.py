"""Products with a matrix of few bits per element, with a scale for each block."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Int, integer
from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    numpy_dtype,
    shape_of,
    tensor,
)
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.loop.writer_scalar import INDEX, Scalar
from tcopt.support.arithmetic.sizes import Size

PANEL = 32
"""Number of columns that are computed together."""
_ROWS = 4
"""Number of rows that share the unpacked codes."""


@irdl_op_definition
class BlockwiseMatmulOp(OpaqueOp):
    """x [M, K] times a matrix [K, N] whose elements are (q - zero) * scale, in f32.

        %y = graph.blockwise_matmul %x, %q, %scales, %offsets {bits = 4, columns = 40}
            : tensor<1x40xf32>

    The codes q have 2, 4 or 8 bits. Along K they are divided into blocks, which have a scale and a
    zero point for each column. Bytes [panels, blocks, bytes, 32] hold the codes of 32 columns side
    by side, with successive codes of a column from the lowest bits; scales and offsets, which are
    scale * zero, are [panels, blocks, 32]. The padding of the last block and panel is arbitrary.
    The matrix stays packed in memory, because with one row of x the product is bound by reading it.
    """

    name = "graph.blockwise_matmul"

    x = operand_def(TensorType)
    codes = operand_def(TensorType)
    scales = operand_def(TensorType)
    offsets = operand_def(TensorType)
    bits = prop_def(Int)
    columns = prop_def(Int)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        codes: SSAValue | Operation,
        scales: SSAValue | Operation,
        offsets: SSAValue | Operation,
        *,
        bits: int,
        columns: int,
    ):
        properties = {"bits": integer(bits), "columns": integer(columns)}
        super().__init__([x, codes, scales, offsets], properties)

    @property
    def per_byte(self) -> int:
        """Number of codes in a byte."""
        return 8 // self.bits.value.data

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [M, N]."""
        x, codes, bits = shape_of(self.x), shape_of(self.codes), self.bits.value.data
        if bits not in (2, 4, 8):
            raise VerifyException(f"codes of {bits} bits do not fill bytes")
        if len(x) != 2 or len(codes) != 4 or not is_float(element_type(self.x)):
            raise VerifyException("takes floats [M, K] and bytes [panels, blocks, bytes, 32]")
        if numpy_dtype(element_type(self.codes)) != np.uint8 or codes[3] != PANEL:
            raise VerifyException(f"codes must be bytes of {PANEL} columns, got {self.codes.type}")
        panels, blocks, count, _ = codes
        size, columns = count * self.per_byte, self.columns.value.data
        if math.ceil(x[1] / size) != blocks or math.ceil(columns / PANEL) != panels:
            raise VerifyException(f"{self.codes.type} does not hold {x[1]} rows, {columns} columns")
        wanted = tensor((panels, blocks, PANEL), f32)
        if self.scales.type != wanted or self.offsets.type != wanted:
            raise VerifyException(f"scales and offsets must be {wanted}")
        return (tensor((x[0], columns), element_type(self.x)),)

    def work(self) -> int:
        """Return the operation count: two operations for each product."""
        return 2 * math.prod(shape_of(self.x)) * self.columns.value.data

    def compute_all(self, x: Array, codes: Array, scales: Array, offsets: Array) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        bits = self.bits.value.data
        shifts = np.arange(self.per_byte, dtype=np.uint8) * bits
        each = (codes[:, :, :, None] >> shifts[:, None]) & np.uint8((1 << bits) - 1)
        panels, blocks, *_ = codes.shape
        values = each.reshape(panels, blocks, -1, PANEL) * scales[:, :, None] - offsets[:, :, None]
        matrix = values.reshape(panels, -1, PANEL).swapaxes(0, 1).reshape(-1, panels * PANEL)
        return (x @ matrix[: x.shape[1], : self.columns.value.data],)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write loops over independent panels, each for a few rows at a time."""
        x, codes, scales, offsets, result = buffers
        rows, depth = x.shape
        size = codes.shape[2] * self.per_byte
        # Rows in f32, padded with zeros, and the sum of each block of a row.
        wide = k.workspace((rows, codes.shape[1] * size), f32)
        sums = k.workspace((rows, codes.shape[1]), f32)
        with k.loop(rows) as row:
            for parts in k.parts(depth):
                with parts as part, part.places() as (place, _):
                    wide[row, place] = x[row, place].cast(f32)
            with k.loop(wide.shape[1] - depth) as place:
                wide[row, place + depth] = 0.0
            with k.loop(codes.shape[1]) as block:
                total = k.variable(f32, 0)
                with k.loop(size) as place:
                    total.set(total.get() + wide[row, block * size + place])
                sums[row, block] = total.get()
        read = wide, sums, codes, scales, offsets
        with k.loop(codes.shape[0], parallel=True) as panel:
            if isinstance(rows, Size):
                first, rest = 0, rows
                for size in (_ROWS, 1):
                    count, rest = divmod(rest, size)
                    with k.loop(count) as part:
                        row = AffineDimExpr(0) * size
                        some = [k.index(row + r, [part.value], first) for r in range(size)]
                        self._write_rows(k, some, panel, read, result)
                    first += count * size
                return
            for first in range(0, rows, _ROWS):
                some = range(first, min(first + _ROWS, rows))
                self._write_rows(k, some, panel, read, result)

    def _write_rows(
        self,
        k: KernelWriter,
        rows: Sequence[Scalar | int],
        panel: Scalar,
        read: Sequence[Buffer],
        result: Buffer,
    ) -> None:
        """Write one panel of some rows: products block by block, each scaled and offset at its
        end."""
        wide, sums, codes, scales, offsets = read
        bits, per, zero = self.bits.value.data, self.per_byte, k.scalar(0, INDEX)
        totals = [k.registers(PANEL, f32) for _ in rows]
        products = [k.registers(PANEL, f32) for _ in rows]
        with k.lanes(zero, PANEL) as (_, lane):
            for total in totals:
                total[lane] = 0.0
        with k.loop(codes.shape[1]) as block:
            with k.lanes(zero, PANEL) as (_, lane):
                for each in products:
                    each[lane] = 0.0
            with k.loop(codes.shape[2]) as step, k.lanes(zero, PANEL) as (_, lane):
                byte = codes[panel, block, step, lane]
                first = (block * codes.shape[2] + step) * per
                for place in range(per):
                    code = byte.field(place * bits, bits).cast(f32)
                    for row, each in zip(rows, products, strict=True):
                        each[lane] = each[lane] + wide[row, first + place] * code
            with k.lanes(zero, PANEL) as (_, lane):
                scale, offset = scales[panel, block, lane], offsets[panel, block, lane]
                for row, total, each in zip(rows, totals, products, strict=True):
                    own = each[lane] * scale - offset * sums[row, block]
                    total[lane] = total[lane] + own
        columns = k.workspace((len(rows), PANEL), f32)
        with k.lanes(zero, PANEL) as (_, lane):
            for place, total in enumerate(totals):
                columns[place, lane] = total[lane]
        held = (panel * -PANEL + result.shape[1]).minimum(PANEL).maximum(0)
        for place, row in enumerate(rows):
            with k.loop(held) as lane:
                result[row, panel * PANEL + lane] = columns[place, lane].cast(result.dtype)
