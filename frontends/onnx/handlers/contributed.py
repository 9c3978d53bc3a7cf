"""onnxruntime operators that exporters use for operations that ONNX lacked at their opset."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.fused_activations import summed
from tcopt.frontends.onnx.handlers.pooling import pooled
from tcopt.frontends.onnx.handlers.selection import unique
from tcopt.frontends.onnx.handlers.shaping import reshaped


@handler("com.microsoft.Inverse")
def inverse(ctx: NodeContext) -> SSAValue:
    """Inverse of the matrices in the last two axes."""
    x = ctx.input(0)
    shape = ctx.shape(x)
    ctx.check(len(shape) >= 2 and shape[-1] == shape[-2], f"{list(shape)} holds no square matrices")
    flat = reshaped(ctx, x, (math.prod(shape[:-2]), *shape[-2:]))
    return reshaped(ctx, ctx.emit(graph.InverseOp(flat)), shape)


@handler("com.microsoft.CDist")
def distances(ctx: NodeContext) -> SSAValue:
    """Pairwise Euclidean distances of the rows of two matrices, or their squares."""
    a, b, metric = ctx.input(0), ctx.input(1), ctx.get_string("metric")
    ctx.check(metric in ("euclidean", "sqeuclidean"), f"metric cannot be {metric!r}")
    ctx.check(ctx.rank(a) == 2 and ctx.rank(b) == 2, "operands should be matrices")
    (rows, width), (columns, other) = ctx.shape(a), ctx.shape(b)
    ctx.check(width == other, f"rows have {width} and {other} elements")
    left, right = reshaped(ctx, a, (rows, 1, width)), reshaped(ctx, b, (1, columns, width))
    difference = ctx.emit(graph.SubOp(left, right))
    kind = "l2" if metric == "euclidean" else "sum_square"
    return ctx.emit(graph.ReduceOp(difference, kind=kind, axes=[2]))


@handler("com.microsoft.ExpandDims")
def expand_dims(ctx: NodeContext) -> SSAValue:
    """Insertion of an axis of extent 1."""
    shape = list(ctx.shape(ctx.input(0)))
    axis = ctx.axis(ctx.constant_int(1, "the axis"), len(shape) + 1)
    shape.insert(axis, 1)
    return reshaped(ctx, ctx.input(0), shape)


@handler("com.microsoft.NhwcMaxPool")
def nhwc_max_pool(ctx: NodeContext) -> SSAValue:
    """Max pooling of channels-last data."""
    x = ctx.input(0)
    rank = ctx.rank(x)
    ctx.check(rank >= 3, "data should have a batch, spatial dimensions and channels")
    first = ctx.emit(graph.TransposeOp(x, [0, rank - 1, *range(1, rank - 1)]))
    return ctx.emit(graph.TransposeOp(pooled(ctx, first, "max"), [0, *range(2, rank), 1]))


@handler("com.microsoft.BiasDropout")
def bias_dropout(ctx: NodeContext) -> list[SSAValue | None]:
    """Sum of data, bias and residual; dropout has no effect in inference."""
    if ctx.optional_input(4) is not None and ctx.constant(4, "the training mode").any():
        ctx.unsupported("BiasDropout in training mode is not supported")
    ctx.operands = ctx.operands[:3]
    total = summed(ctx)
    mask = ctx.splat(ctx.shape(total), np.True_) if ctx.output_used(1) else None
    return [total, mask]


@handler("com.microsoft.Unique")
def unique_in_order(ctx: NodeContext) -> list[SSAValue | None]:
    """Distinct elements in order of first occurrence, with the index of each element and counts."""
    values, _, indices, counts = unique(ctx)
    return [values, indices, counts]


@handler("com.microsoft.UnfoldTensor")
def unfold_tensor(ctx: NodeContext) -> SSAValue:
    """Windows along an axis, whose elements become a new last axis, as in torch's unfold."""
    x, size, step = ctx.input(0), ctx.get_int("size"), ctx.get_int("step")
    rank = ctx.rank(x)
    axis = ctx.axis(ctx.get_int("dim"), rank)
    extent = ctx.shape(x)[axis]
    ctx.check(0 < size <= extent and step > 0, f"no windows of {size} elements in {extent}")
    starts = np.arange((extent - size) // step + 1) * step
    ctx.builder.check_made(len(starts), size)
    indices = ctx.array(starts[:, None] + np.arange(size))
    windows = ctx.emit(graph.GatherOp(x, indices, axis=axis))
    order = [d for d in range(rank + 1) if d != axis + 1]
    return ctx.emit(graph.TransposeOp(windows, [*order, axis + 1]))


@handler("com.microsoft.CropAndResize")
def crop_and_resize(ctx: NodeContext) -> SSAValue:
    """Regions of images, in relative coordinates, resized to one size (TensorFlow's operator)."""
    x, rois, images = ctx.input(0), ctx.input(1), ctx.input(2)
    size = ctx.constant_ints(3, "the size")
    mode = {"bilinear": "linear", "nearest": "nearest"}.get(ctx.get_string("mode"))
    if mode is None:
        ctx.malformed(f"mode cannot be {ctx.get_string('mode')!r}")
    ctx.check(ctx.rank(x) == 4 and len(size) == 2, "data should be images, and the size two values")
    count = ctx.shape(images)[0]
    ctx.check(ctx.shape(rois) == (count, 4), f"regions {list(ctx.shape(rois))} are not [{count},4]")
    ctx.require(images, 0, ctx.shape(x)[0] - 1, "image indices")
    chosen = ctx.emit(graph.GatherOp(x, images, axis=0))
    axes: list[SSAValue] = []
    inside: SSAValue | None = None
    for d, (extent, wanted) in enumerate(zip(ctx.shape(x)[2:], size, strict=True)):
        ctx.check(wanted > 0, f"a size of {size} has no elements")
        steps = np.arange(wanted) / (wanted - 1) if wanted > 1 else np.array([0.5])
        start, end = (ctx.emit(graph.SliceOp(rois, [0, place], [count, 1])) for place in (d, d + 2))
        first = ctx.emit(graph.MulOp(start, ctx.literal((1 - steps)[None] * (extent - 1), rois)))
        second = ctx.emit(graph.MulOp(end, ctx.literal(steps[None] * (extent - 1), rois)))
        place = ctx.emit(graph.AddOp(first, second))
        shape = (count, 1, wanted, 1) if d == 0 else (count, 1, 1, wanted)
        place = reshaped(ctx, place, shape)
        for limit, predicate in ((0, "ge"), (extent - 1, "le")):
            fits = ctx.emit(graph.CompareOp(place, ctx.literal(limit, place), predicate=predicate))
            inside = fits if inside is None else ctx.emit(graph.AndOp(inside, fits))
        axes.append(ctx.emit(graph.BroadcastToOp(place, (count, 1, *size))))
    places = ctx.emit(graph.ConcatOp(axes, axis=1))
    sampled = ctx.emit(graph.SampleOp(chosen, places, mode=mode, padding="border"))
    assert inside is not None and ctx.element(inside) == i1
    outside = ctx.literal(ctx.get_float("extrapolation_value"), sampled)
    return ctx.emit(graph.SelectOp(inside, sampled, outside))
