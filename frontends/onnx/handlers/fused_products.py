"""Handlers of products and convolutions that onnxruntime's optimiser has fused with other ops."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.activations import activation
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.convolution import convolved
from tcopt.frontends.onnx.handlers.matrix import gemm_of, product
from tcopt.frontends.onnx.handlers.shaping import transposed


def _factor(ctx: NodeContext, x: SSAValue, side: str) -> SSAValue:
    """Move an operand's first axis after its other batch axes if the node requests it."""
    rank = ctx.rank(x)
    if rank < 3 or not ctx.get_bool(f"transBatch{side}", 0):
        return x
    return transposed(ctx, x, [*range(1, rank - 1), 0, rank - 1])


@handler("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
def fused_matmul(ctx: NodeContext) -> SSAValue:
    """alpha * a @ b, with factors optionally transposed; vectors are not."""
    return _product(ctx)


def _product(ctx: NodeContext) -> SSAValue:
    a, b = _factor(ctx, ctx.input(0), "A"), _factor(ctx, ctx.input(1), "B")
    swap_a = ctx.get_bool("transA") and ctx.rank(a) > 1
    swap_b = ctx.get_bool("transB") and ctx.rank(b) > 1
    if ctx.rank(a) > 1 and ctx.rank(b) > 1:
        result = ctx.emit(graph.MatmulOp(a, b, transpose_a=swap_a, transpose_b=swap_b))
    else:
        result = product(ctx, _swapped(ctx, a, swap_a), _swapped(ctx, b, swap_b))
    alpha = ctx.get_float("alpha")
    return result if alpha == 1.0 else ctx.emit(graph.MulOp(result, ctx.literal(alpha, result)))


def _swapped(ctx: NodeContext, x: SSAValue, swap: bool) -> SSAValue:
    rank = ctx.rank(x)
    return transposed(ctx, x, [*range(rank - 2), rank - 1, rank - 2]) if swap else x


def _activated(ctx: NodeContext, value: SSAValue) -> SSAValue:
    """Apply the activation that a node names, if any."""
    name = ctx.get_string("activation")
    if not name:
        return value
    alpha, beta = (
        ctx.get_float(key) if ctx.has(key) else None
        for key in ("activation_alpha", "activation_beta")
    )
    return activation(ctx, name, alpha, beta)(ctx, value)


@handler("com.microsoft.FusedMatMulActivation")
def fused_matmul_activation(ctx: NodeContext) -> SSAValue:
    """FusedMatMul followed by an activation."""
    return _activated(ctx, _product(ctx))


@handler("com.microsoft.FusedGemm")
def fused_gemm(ctx: NodeContext) -> SSAValue:
    """Gemm followed by an activation."""
    return _activated(ctx, gemm_of(ctx))


@handler("com.microsoft.GemmFastGelu")
def gemm_fast_gelu(ctx: NodeContext) -> SSAValue:
    """gelu(x @ w + bias), approximated by tanh."""
    total, bias = product(ctx, ctx.input(0), ctx.input(1)), ctx.optional_input(2)
    if bias is not None:
        total = ctx.emit(graph.AddOp(total, bias))
    return ctx.emit(graph.GeluOp(total, approximate="tanh"))


@handler("com.microsoft.FusedConv")
def fused_conv(ctx: NodeContext) -> SSAValue:
    """Convolution, addition of another tensor, and an activation."""
    result = convolved(ctx, ctx.input(0), ctx.input(1), ctx.optional_input(2))
    return _finished(ctx, result, ctx.optional_input(3))


@handler("com.microsoft.NhwcFusedConv")
def nhwc_fused_conv(ctx: NodeContext) -> SSAValue:
    """FusedConv of channels-last data."""
    x, z = ctx.input(0), ctx.optional_input(3)
    rank = ctx.rank(x)
    ctx.check(rank >= 3, "data should have a batch, spatial dimensions and channels")
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    plain = transposed(ctx, x, first)
    result = convolved(ctx, plain, ctx.input(1), ctx.optional_input(2))
    result = _finished(ctx, result, z and transposed(ctx, z, first))
    return transposed(ctx, result, last)


def _finished(ctx: NodeContext, result: SSAValue, summand: SSAValue | None) -> SSAValue:
    if summand is not None:
        result = ctx.emit(graph.AddOp(result, summand))
    name, numbers = ctx.get_string("activation"), ctx.get_floats("activation_params") or []
    if not name:
        return result
    if name == "Clip":
        ctx.check(len(numbers) == 2, f"activation_params of Clip should be two, not {numbers}")
        return ctx.emit(graph.ClipOp(result, min=numbers[0], max=numbers[1]))
    alpha, beta = (*numbers, None, None)[:2]
    return activation(ctx, name, alpha, beta)(ctx, result)
