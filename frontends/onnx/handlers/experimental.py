"""Handlers of experimental operators of ONNX's first opsets, which onnxruntime still supports."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler


def _scaled(ctx: NodeContext, value: SSAValue, factor: float) -> SSAValue:
    return ctx.emit(graph.MulOp(value, ctx.literal(factor, value)))


@handler("Affine")
def affine(ctx: NodeContext) -> SSAValue:
    """alpha * x + beta."""
    product = _scaled(ctx, ctx.input(0), ctx.get_float("alpha"))
    return ctx.emit(graph.AddOp(product, ctx.literal(ctx.get_float("beta"), product)))


@handler("Scale")
def scale(ctx: NodeContext) -> SSAValue:
    """x times a constant."""
    return _scaled(ctx, ctx.input(0), ctx.get_float("scale"))


@handler("ScaledTanh")
def scaled_tanh(ctx: NodeContext) -> SSAValue:
    """alpha * tanh(beta * x)."""
    inner = _scaled(ctx, ctx.input(0), ctx.get_float("beta"))
    return _scaled(ctx, ctx.emit(graph.TanhOp(inner)), ctx.get_float("alpha"))


@handler("ParametricSoftplus")
def parametric_softplus(ctx: NodeContext) -> SSAValue:
    """alpha * log(1 + exp(beta * x))."""
    inner = _scaled(ctx, ctx.input(0), ctx.get_float("beta"))
    return _scaled(ctx, ctx.emit(graph.SoftplusOp(inner)), ctx.get_float("alpha"))


@handler("ThresholdedRelu", until=10)
def thresholded_relu(ctx: NodeContext) -> SSAValue:
    """x where it exceeds alpha, 0 elsewhere."""
    x = ctx.input(0)
    above = ctx.emit(graph.CompareOp(x, ctx.literal(ctx.get_float("alpha"), x), predicate="gt"))
    return ctx.emit(graph.SelectOp(above, x, ctx.literal(0.0, x)))


@handler("ImageScaler")
def image_scaler(ctx: NodeContext) -> SSAValue:
    """Images times a constant, plus a bias per channel."""
    x, bias = ctx.input(0), ctx.get_floats("bias") or []
    shape = ctx.shape(x)
    ctx.check(len(shape) == 4 and len(bias) == shape[1], f"{len(bias)} biases for {list(shape)}")
    product = _scaled(ctx, x, ctx.get_float("scale"))
    column = np.array(bias).reshape(1, -1, 1, 1)
    return ctx.emit(graph.AddOp(product, ctx.literal(column, product)))


@handler("Crop")
def crop(ctx: NodeContext) -> SSAValue:
    """Images without a border (left, top, right, bottom), or of a given size from its corner."""
    x, border = ctx.input(0), ctx.get_ints("border") or []
    shape, size = ctx.shape(x), ctx.get_ints("scale")
    ctx.check(len(shape) == 4 and len(border) == 4, f"border {border} does not fit {list(shape)}")
    left, top, right, bottom = border
    extents = size or [shape[2] - top - bottom, shape[3] - left - right]
    ctx.check(
        len(extents) == 2 and min(*border, *extents) >= 0,
        f"no image of size {extents} fits inside the border",
    )
    ctx.check(
        top + extents[0] <= shape[2] and left + extents[1] <= shape[3],
        f"an image of size {extents} at {[top, left]} exceeds {list(shape)}",
    )
    return ctx.emit(graph.SliceOp(x, [0, 0, top, left], [*shape[:2], *extents]))
