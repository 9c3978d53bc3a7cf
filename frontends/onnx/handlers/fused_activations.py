"""Handlers of activations that onnxruntime's optimiser has fused with preceding additions."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.shaping import reshaped


@handler("com.microsoft.Gelu", "com.microsoft.BiasGelu")
def gelu(ctx: NodeContext) -> SSAValue:
    """Exact GELU of a value or a sum."""
    return ctx.emit(graph.GeluOp(summed(ctx)))


@handler("com.microsoft.FastGelu")
def fast_gelu(ctx: NodeContext) -> SSAValue:
    """GELU by tanh of a value or a sum."""
    return ctx.emit(graph.GeluOp(summed(ctx), approximate="tanh"))


def summed(ctx: NodeContext) -> SSAValue:
    """Return the sum of all operands that are present."""
    total = ctx.input(0)
    for bias in filter(None, ctx.operands[1:]):
        total = ctx.emit(graph.AddOp(total, bias))
    return total


@handler("com.microsoft.BiasAdd")
def bias_add(ctx: NodeContext) -> SSAValue:
    """Sum of a value, a bias and a residual."""
    return summed(ctx)


@handler("com.microsoft.BiasSplitGelu")
def bias_split_gelu(ctx: NodeContext) -> SSAValue:
    """The first half of a sum's channels times GELU of the second half."""
    total = summed(ctx)
    *outer, channels = ctx.shape(total)
    ctx.check(channels % 2 == 0, f"{channels} channels do not split into halves")
    zeros, half = [0] * len(outer), channels // 2
    left = ctx.emit(graph.SliceOp(total, [*zeros, 0], [*outer, half]))
    right = ctx.emit(graph.SliceOp(total, [*zeros, half], [*outer, half]))
    return ctx.emit(graph.MulOp(left, ctx.emit(graph.GeluOp(right))))


@handler("com.microsoft.BiasSoftmax")
def bias_softmax(ctx: NodeContext) -> SSAValue:
    """Softmax of a sum, over all axes starting with `axis`."""
    total = summed(ctx)
    shape = ctx.shape(total)
    axis = ctx.axis(ctx.get_int("axis"), len(shape))
    rows = reshaped(ctx, total, (*shape[:axis], math.prod(shape[axis:])))
    return reshaped(ctx, ctx.emit(graph.SoftmaxOp(rows, axis=axis)), shape)
