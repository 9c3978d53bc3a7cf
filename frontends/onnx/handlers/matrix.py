"""Handlers of matrix products."""

from __future__ import annotations

import math

from xdsl.ir import Attribute, SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.blockwise_matrices import dequantized
from tcopt.frontends.onnx.handlers.shaping import transposed


@handler("MatMul")
def matmul(ctx: NodeContext) -> SSAValue:
    """Matrix product as in numpy: a vector is a row on the left and a column on the right."""
    lhs, rhs = ctx.input(0), ctx.input(1)
    if (codes := dequantized(ctx, rhs, by_columns=False)) is not None:
        return codes.product(ctx, lhs)
    return product(ctx, lhs, rhs)


def product(
    ctx: NodeContext, lhs: SSAValue, rhs: SSAValue, result_element: Attribute | None = None
) -> SSAValue:
    """Return the matrix product of two values by the rules of MatMul."""
    left_vector, right_vector = ctx.rank(lhs) == 1, ctx.rank(rhs) == 1
    ctx.check(ctx.rank(lhs) and ctx.rank(rhs), "operands cannot be scalars")
    if left_vector:
        lhs = ctx.emit(graph.ReshapeOp(lhs, (1, *ctx.shape(lhs))))
    if right_vector:
        rhs = ctx.emit(graph.ReshapeOp(rhs, (*ctx.shape(rhs), 1)))
    result = ctx.emit(graph.MatmulOp(lhs, rhs, result_element=result_element))
    shape = list(ctx.shape(result))
    if right_vector:
        del shape[-1]
    if left_vector:
        del shape[-1 if right_vector else -2]
    if left_vector or right_vector:
        result = ctx.emit(graph.ReshapeOp(result, shape))
    return result


@handler("Gemm")
def gemm(ctx: NodeContext) -> SSAValue:
    """alpha * a @ b + beta * c, with factors optionally transposed."""
    return gemm_of(ctx)


def gemm_of(ctx: NodeContext) -> SSAValue:
    """Emit Gemm for a node's operands and attributes."""
    a, b, c = ctx.input(0), ctx.input(1), ctx.optional_input(2)
    ctx.check(ctx.rank(a) == 2 and ctx.rank(b) == 2, "a and b should be matrices")
    swap_a, swap_b = ctx.get_bool("transA"), ctx.get_bool("transB")
    if (codes := dequantized(ctx, b, by_columns=swap_b)) is not None:
        result = codes.product(ctx, transposed(ctx, a, (1, 0)) if swap_a else a)
    else:
        result = ctx.emit(graph.MatmulOp(a, b, transpose_a=swap_a, transpose_b=swap_b))
    result = _scaled(ctx, result, ctx.get_float("alpha"))
    if c is None or ctx.get_float("beta") == 0.0:
        return result
    total = ctx.emit(graph.AddOp(result, _scaled(ctx, c, ctx.get_float("beta"))))
    ctx.check(
        ctx.shape(total) == ctx.shape(result),
        f"c {list(ctx.shape(c))} does not broadcast to {list(ctx.shape(result))}",
    )
    return total


def _scaled(ctx: NodeContext, value: SSAValue, factor: float) -> SSAValue:
    if factor == 1.0:
        return value
    return ctx.emit(graph.MulOp(value, ctx.literal(factor, value)))


@handler("Det")
def determinant(ctx: NodeContext) -> SSAValue:
    """Determinants of the matrices in the last two axes."""
    x = ctx.input(0)
    shape = ctx.shape(x)
    ctx.check(len(shape) >= 2 and shape[-1] == shape[-2], f"{list(shape)} holds no square matrices")
    flat = ctx.emit(graph.ReshapeOp(x, (math.prod(shape[:-2]), *shape[-2:])))
    return ctx.emit(graph.ReshapeOp(ctx.emit(graph.DeterminantOp(flat)), shape[:-2]))
