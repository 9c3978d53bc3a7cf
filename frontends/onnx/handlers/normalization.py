"""Handlers of normalisations and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler


def like_data(ctx: NodeContext, value: SSAValue, x: SSAValue) -> SSAValue:
    """Convert a parameter to the element type of the data."""
    element = ctx.element(x)
    return value if ctx.element(value) == element else ctx.emit(graph.CastOp(value, element))


@handler("BatchNormalization")
def batch_normalization(ctx: NodeContext) -> list[SSAValue | None]:
    """Batch normalisation with given statistics."""
    x, *parameters = ctx.inputs()
    if not ctx.get_bool("spatial", 1) and ctx.rank(x) > 2:
        return [_by_feature(ctx, x, parameters)]
    if ctx.get_bool("training_mode", 0):
        return _by_own_statistics(ctx, x, parameters)
    ctx.single_output("the statistics output")
    scale, bias, mean, variance = (like_data(ctx, value, x) for value in parameters)
    epsilon = ctx.get_float("epsilon")
    return [ctx.emit(graph.BatchNormOp(x, scale, bias, mean, variance, epsilon=epsilon))]


def _by_feature(ctx: NodeContext, x: SSAValue, parameters: list[SSAValue]) -> SSAValue:
    """Apply batch normalisation with parameters per element of a sample instead of per channel."""
    shape = ctx.shape(x)
    count = math.prod(shape[1:])
    for value in parameters:
        ctx.check(
            ctx.shape(value) == shape[1:], f"{list(ctx.shape(value))} is not {list(shape[1:])}"
        )
    ctx.single_output("the statistics output")
    flat = ctx.emit(graph.ReshapeOp(x, (shape[0], count)))
    vectors = (ctx.emit(graph.ReshapeOp(like_data(ctx, v, x), (count,))) for v in parameters)
    scale, bias, mean, variance = vectors
    epsilon = ctx.get_float("epsilon")
    normal = ctx.emit(graph.BatchNormOp(flat, scale, bias, mean, variance, epsilon=epsilon))
    return ctx.emit(graph.ReshapeOp(normal, shape))


def _by_own_statistics(
    ctx: NodeContext, x: SSAValue, parameters: list[SSAValue]
) -> list[SSAValue | None]:
    """Apply batch normalisation with the batch's own statistics; also return running statistics."""
    scale, bias, mean, variance = parameters
    ctx.check(ctx.rank(x) >= 2, "data should have a channel dimension")
    element, channels = ctx.element(x), ctx.shape(x)[1]
    axes = [axis for axis in range(ctx.rank(x)) if axis != 1]

    def mean_of(value: SSAValue) -> SSAValue:
        return ctx.emit(graph.ReduceOp(value, kind="mean", axes=axes))

    wide = like_data(ctx, x, mean)
    own_mean = mean_of(wide)
    column = ctx.emit(graph.ReshapeOp(own_mean, (channels, *[1] * (ctx.rank(x) - 2))))
    centred = ctx.emit(graph.SubOp(wide, column))
    own_variance = mean_of(ctx.emit(graph.MulOp(centred, centred)))
    momentum = ctx.get_float("momentum")

    def running(old: SSAValue, new: SSAValue) -> SSAValue:
        kept = ctx.emit(graph.MulOp(old, ctx.literal(momentum, old)))
        added = ctx.emit(graph.MulOp(new, ctx.literal(1 - momentum, new)))
        return ctx.emit(graph.AddOp(kept, added))

    scale, bias = like_data(ctx, scale, wide), like_data(ctx, bias, wide)
    epsilon = ctx.get_float("epsilon")
    y = ctx.emit(graph.BatchNormOp(wide, scale, bias, own_mean, own_variance, epsilon=epsilon))
    y = y if ctx.element(y) == element else ctx.emit(graph.CastOp(y, element))
    return [y, running(mean, own_mean), running(variance, own_variance)]


@handler("InstanceNormalization")
def instance_normalization(ctx: NodeContext) -> SSAValue:
    """Normalisation of each channel of each sample."""
    x, scale, bias = ctx.inputs()
    return ctx.emit(graph.InstanceNormOp(x, scale, bias, epsilon=ctx.get_float("epsilon")))


@handler("GroupNormalization")
def group_normalization(ctx: NodeContext) -> SSAValue:
    """Normalisation of groups of channels; before opset 21 with one scale per group."""
    x, scale, bias = ctx.inputs()
    groups = ctx.get_int("num_groups")
    ctx.check(ctx.rank(x) >= 2, "data should have a channel dimension")
    channels = ctx.shape(x)[1]
    ctx.check(
        groups > 0 and channels % groups == 0, f"{channels} channels do not split into {groups}"
    )
    if ctx.opset < 21:
        scale = _spread(ctx, scale, groups, channels)
        bias = _spread(ctx, bias, groups, channels)
    return ctx.emit(
        graph.GroupNormOp(x, scale, bias, groups=groups, epsilon=ctx.get_float("epsilon"))
    )


def _spread(ctx: NodeContext, value: SSAValue, groups: int, channels: int) -> SSAValue:
    """Expand one value per group to one per channel."""
    ctx.check(ctx.shape(value) == (groups,), "there should be one scale and bias per group")
    column = ctx.emit(graph.ReshapeOp(value, (groups, 1)))
    table = ctx.emit(graph.BroadcastToOp(column, (groups, channels // groups)))
    return ctx.emit(graph.ReshapeOp(table, (channels,)))


@handler("LayerNormalization")
def layer_normalization(ctx: NodeContext) -> list[SSAValue | None]:
    """Normalisation over trailing axes, and its statistics if they are used."""
    x, scale, bias = ctx.input(0), ctx.input(1), ctx.optional_input(2)
    return layer_normalized(ctx, x, scale, bias, ctx.axis(ctx.get_int("axis"), ctx.rank(x)))


def layer_normalized(
    ctx: NodeContext, x: SSAValue, scale: SSAValue, bias: SSAValue | None, axis: int
) -> list[SSAValue | None]:
    """Normalise over the axes from `axis` on; also return the statistics that the node uses."""
    epsilon = ctx.get_float("epsilon")
    normal = ctx.emit(graph.LayerNormOp(x, scale, bias, axis=axis, epsilon=epsilon))
    if not ctx.output_used(1) and not ctx.output_used(2):
        return [normal, None, None]
    axes = list(range(axis, ctx.rank(x)))
    mean = ctx.emit(graph.ReduceOp(x, kind="mean", axes=axes, keepdims=True))
    centred = ctx.emit(graph.SubOp(x, mean))
    square = ctx.emit(graph.MulOp(centred, centred))
    variance = ctx.emit(graph.ReduceOp(square, kind="mean", axes=axes, keepdims=True))
    shifted = ctx.emit(graph.AddOp(variance, ctx.literal(epsilon, variance)))
    return [normal, mean, ctx.emit(graph.RsqrtOp(shifted))]


@handler("RMSNormalization", "SimplifiedLayerNormalization")
def rms_normalization(ctx: NodeContext) -> SSAValue:
    """Division by the root mean square over trailing axes."""
    x, scale = ctx.input(0), ctx.input(1)
    ctx.single_output("the statistics output")
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(x))
    return ctx.emit(graph.RmsNormOp(x, scale, axis=axis, epsilon=ctx.get_float("epsilon")))


@handler("LpNormalization")
def lp_normalization(ctx: NodeContext) -> SSAValue:
    """Division by the 1- or 2-norm along an axis; zeros are kept.

    Rows are first divided by their largest magnitude, so that squares neither underflow nor
    overflow.
    """
    x, p = ctx.input(0), ctx.get_int("p")
    ctx.check(p in (1, 2), f"p cannot be {p}")
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(x))
    size = ctx.emit(graph.AbsOp(x))
    largest = ctx.emit(graph.ReduceOp(size, kind="max", axes=[axis], keepdims=True))
    zero, one = ctx.literal(0.0, largest), ctx.literal(1.0, largest)
    # Rows of zeros, or with infinite elements, are only divided by their norm.
    is_positive = ctx.emit(graph.CompareOp(largest, zero, predicate="gt"))
    is_endless = ctx.emit(graph.IsInfOp(largest))
    scale = ctx.emit(graph.SelectOp(is_positive, largest, one))
    scale = ctx.emit(graph.SelectOp(is_endless, one, scale))
    scaled = ctx.emit(graph.DivOp(x, scale))
    norm = ctx.emit(graph.ReduceOp(scaled, kind=f"l{p}", axes=[axis], keepdims=True))
    # The norm of scaled rows is at least 1, or is 0.
    least = ctx.literal(np.finfo(ctx.builder.dtype_of(norm)).tiny, norm)
    return ctx.emit(graph.DivOp(scaled, ctx.emit(graph.MaxOp(norm, least))))


@handler("LRN")
def local_response_normalization(ctx: NodeContext) -> SSAValue:
    """Normalisation across neighbouring channels."""
    x, size, alpha = ctx.input(0), ctx.get_int("size"), ctx.get_float("alpha")
    # Larger windows sum the same channels, so the window is limited to all channels.
    widest = 2 * ctx.shape(x)[1] - 1 if ctx.rank(x) > 1 else size
    if size > widest > 0:
        size, alpha = widest, alpha * widest / size
    return ctx.emit(
        graph.LrnOp(
            x,
            size=size,
            alpha=alpha,
            beta=ctx.get_float("beta"),
            bias=ctx.get_float("bias"),
        )
    )


def along_axis(
    ctx: NodeContext, apply: Callable[[SSAValue, int], SSAValue], since_13: bool
) -> SSAValue:
    """Apply an op along an axis; before opset 13 over all axes from it on, flattened."""
    x = ctx.input(0)
    rank, shape = ctx.rank(x), ctx.shape(x)
    if since_13:
        return apply(x, ctx.axis(ctx.get_int("axis"), rank))
    axis = ctx.get_int("axis")
    axis = rank if axis == rank else ctx.axis(axis, rank)
    wide = [i for i in range(axis, rank) if shape[i] != 1]
    if len(wide) == 1:
        return apply(x, wide[0])
    rows = math.prod(shape[:axis])
    flat = ctx.emit(graph.ReshapeOp(x, (rows, math.prod(shape[axis:]))))
    return ctx.emit(graph.ReshapeOp(apply(flat, 1), shape))


@handler("Softmax")
def softmax(ctx: NodeContext) -> SSAValue:
    """Softmax along an axis."""
    return along_axis(ctx, lambda x, a: ctx.emit(graph.SoftmaxOp(x, axis=a)), ctx.opset >= 13)


@handler("LogSoftmax")
def log_softmax(ctx: NodeContext) -> SSAValue:
    """Logarithm of softmax along an axis."""
    return along_axis(ctx, lambda x, a: ctx.emit(graph.LogSoftmaxOp(x, axis=a)), ctx.opset >= 13)
