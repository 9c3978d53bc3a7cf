"""Matrices quantised by blocks: their packing for products, from packed bytes or from a
DequantizeLinear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, i8
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.contraction.blockwise_matmul import PANEL, WORD
from tcopt.dialects.graph.core.constant import is_made_of_constants
from tcopt.dialects.graph.core.types import element_type
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.handlers.shaping import reshaped, transposed

_UI8 = IntegerType(8, Signedness.UNSIGNED)
_UI32 = IntegerType(WORD, Signedness.UNSIGNED)
_LEAST_BLOCK = 16
"""Minimum size of a block for which sums of blocks pay off."""


@dataclass(frozen=True)
class CodeMatrix:
    """A matrix [K, N] of unsigned codes with a scale and a zero point for each block of a column.

    Attributes:
        codes: bytes [N, blocks, bytes of a block], lowest bits first.
        scales: floats [N, blocks].
        zeros: zero points [N, blocks]; None if all are the middle of the codes.
        bits: width of a code.
    """

    codes: SSAValue
    scales: SSAValue
    zeros: SSAValue | None
    bits: int

    def product(self, ctx: NodeContext, x: SSAValue, *, rounded: bool = False) -> SSAValue:
        """Return x [..., K] times the matrix; a last block that is not full is padded."""
        columns, blocks, count = ctx.shape(self.codes)
        words = reshaped(ctx, self.codes, (columns, blocks, count * 8 // WORD, WORD // 8))
        matrix = [ctx.emit(graph.BitcastOp(words, _UI32)), _short(ctx, self.scales)]
        if self.zeros is not None:
            matrix.append(self.zeros)
        panels = [_panels(ctx, each) for each in matrix]
        *lead, depth = ctx.shape(x)
        rows = x if lead else reshaped(ctx, x, (1, depth))
        if missing := blocks * count * 8 // self.bits - depth:
            nothing = [0] * (ctx.rank(rows) - 1)
            rows = ctx.emit(graph.PadOp(rows, low=[*nothing, 0], high=[*nothing, missing]))
        options = {"bits": self.bits, "columns": columns, "rounded": rounded}
        result = ctx.emit(graph.BlockwiseMatmulOp(rows, *panels, **options))
        return result if lead else reshaped(ctx, result, (columns,))


def dequantized(ctx: NodeContext, matrix: SSAValue, *, by_columns: bool) -> CodeMatrix | None:
    """Return the codes behind a constant matrix that a DequantizeLinear computes by blocks of its
    columns; None for other matrices.

    Args:
        by_columns: whether the matrix is [N, K].
    """
    if isinstance(matrix.owner, graph.TransposeOp) and ctx.rank(matrix) == 2:
        matrix, by_columns = matrix.owner.x, not by_columns
    joined = matrix.owner
    op = joined.x.owner if isinstance(joined, graph.ReshapeOp) else None
    if not isinstance(op, graph.DequantizeOp) or ctx.rank(matrix) != 2 or ctx.rank(op.x) != 3:
        return None
    axis = 2 if by_columns else 1
    scales, size, bits = ctx.shape(op.scale), ctx.shape(op.x)[axis], _width(op.x)
    is_along = len(scales) == 3 and scales[axis] == 1 and 1 not in ctx.shape(op.x)
    if not is_along or size < _LEAST_BLOCK or size * bits % WORD or bits not in (2, 4, 8):
        return None
    if not all(is_made_of_constants(operand) for operand in op.operands):
        return None
    order = (0, 1, 2) if by_columns else (2, 0, 1)
    columns, blocks = (ctx.shape(op.x)[place] for place in order[:2])
    codes = packed(ctx, transposed(ctx, _unsigned(ctx, op.x, bits), order), bits)
    zero = ctx.builder.value_of(op.zero)
    middle = 0 if ctx.element(op.zero) == i8 else 1 << (bits - 1)
    zeros = None
    if zero is None or not (zero == middle).all():
        zeros = _unsigned(ctx, op.zero, bits)
        if ctx.rank(zeros) != 3:
            zeros = reshaped(ctx, zeros, (1, 1, 1))
        zeros = ctx.emit(graph.BroadcastToOp(zeros, scales))
        zeros = reshaped(ctx, transposed(ctx, zeros, order), (columns, blocks))
    own = reshaped(ctx, transposed(ctx, op.scale, order), (columns, blocks))
    return CodeMatrix(codes, own, zeros, bits)


def packed(ctx: NodeContext, codes: SSAValue, bits: int) -> SSAValue:
    """Pack codes, one a byte, into bytes along the last axis, lowest bits first."""
    *lead, count = ctx.shape(codes)
    fields = 8 // bits
    each = reshaped(ctx, codes, (*lead, count // fields, fields))
    nothing, shape = [0] * (len(lead) + 1), (*lead, count // fields, 1)
    result: SSAValue | None = None
    for field in range(fields):
        part = ctx.emit(graph.SliceOp(each, [*nothing, field], shape))
        if field:
            part = ctx.emit(graph.ShiftLeftOp(part, ctx.array(np.array(bits * field, np.uint8))))
        result = part if result is None else ctx.emit(graph.OrOp(result, part))
    assert result is not None
    return reshaped(ctx, result, shape[:-1])


def _unsigned(ctx: NodeContext, codes: SSAValue, bits: int) -> SSAValue:
    """Add half of the range to signed codes."""
    if ctx.element(codes) != i8:
        return codes
    half = np.array(1 << (bits - 1), np.uint8).view(np.int8)
    return ctx.emit(graph.BitcastOp(ctx.emit(graph.AddOp(codes, ctx.array(half))), _UI8))


def _width(codes: SSAValue) -> int:
    """Return the bits of the type from which bytes were extended."""
    while isinstance(codes.owner, graph.CastOp | graph.ReshapeOp):
        codes = codes.owner.x
    element = element_type(codes)
    return element.width.data if isinstance(element, IntegerType) else 0


def _short(ctx: NodeContext, scales: SSAValue) -> SSAValue:
    """Store f32 scales that f16 represents exactly as f16."""
    values = ctx.builder.value_of(scales)
    if values is None or values.dtype != np.float32:
        return scales
    with np.errstate(over="ignore"):
        short = values.astype(np.float16)
    return ctx.array(short) if np.array_equal(short.astype(np.float32), values) else scales


def _panels(ctx: NodeContext, rows: SSAValue) -> SSAValue:
    """Arrange rows [N, ...] as panels [panels, ..., PANEL], padded with zeros."""
    count, *rest = ctx.shape(rows)
    if missing := -count % PANEL:
        nothing = [0] * len(rest)
        rows = ctx.emit(graph.PadOp(rows, low=[0, *nothing], high=[missing, *nothing]))
    panels = reshaped(ctx, rows, ((count + missing) // PANEL, PANEL, *rest))
    return transposed(ctx, panels, [0, *range(2, len(rest) + 2), 1])
