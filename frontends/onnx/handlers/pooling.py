"""Handlers of local and global pooling."""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import is_float, numpy_dtype
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.context.windows import WindowAttributes
from tcopt.frontends.onnx.handlers.shaping import reshaped


def _kernel(ctx: NodeContext, x: SSAValue) -> list[int]:
    kernel, shape = ctx.get_ints("kernel_shape") or [], ctx.shape(x)
    ctx.check(
        len(kernel) == len(shape) - 2 > 0,
        f"kernel_shape {kernel} does not fit data of shape {list(shape)}",
    )
    return kernel


def _pool(ctx: NodeContext, kind: str, *, count_include_pad: bool = False, p: int = 2) -> SSAValue:
    return pooled(ctx, ctx.input(0), kind, count_include_pad=count_include_pad, p=p)


def pooled(
    ctx: NodeContext, x: SSAValue, kind: str, *, count_include_pad: bool = False, p: int = 2
) -> SSAValue:
    """Emit the pooling described by a node's attributes, for a given operand."""
    kernel = _kernel(ctx, x)
    window = WindowAttributes.of(ctx, kernel)
    data, pads = window.padded(ctx, x, _lowest(ctx, x) if kind == "max" else None)

    def windows(values: SSAValue) -> SSAValue:
        return ctx.emit(
            graph.PoolOp(
                values,
                kind=kind,
                kernel=kernel,
                strides=window.strides,
                pads=pads,
                dilations=window.dilations,
                ceil_mode=ctx.get_bool("ceil_mode", 0) and window.auto_pad == "NOTSET",
                count_include_pad=count_include_pad,
                p=p,
            )
        )

    if data is x or kind != "average" or count_include_pad:
        return windows(data)
    # Divide by the share of each window that is data.
    one = numpy_dtype(ctx.element(x)).type(1)
    ones = ctx.splat((1, 1, *ctx.shape(x)[2:]), one)
    shares = windows(window.padded(ctx, ones)[0])
    return ctx.emit(graph.DivOp(windows(data), shares))


def _lowest(ctx: NodeContext, x: SSAValue) -> SSAValue:
    """Return a scalar that no element is less than."""
    dtype = numpy_dtype(ctx.element(x))
    lowest = -np.inf if is_float(ctx.element(x)) else np.iinfo(dtype).min
    return ctx.literal(lowest, x)


@handler("MaxPool")
def max_pool(ctx: NodeContext) -> SSAValue | list[SSAValue]:
    """The maximum of each window, and its index if that output is used."""
    if not ctx.output_used(1):
        return _pool(ctx, "max")
    x = ctx.input(0)
    kernel = _kernel(ctx, x)
    window = WindowAttributes.of(ctx, kernel)
    op = graph.MaxPoolIndicesOp(
        x,
        kernel=kernel,
        strides=window.strides,
        pads=window.pads(ctx.shape(x)[2:]),
        dilations=window.dilations,
        ceil_mode=ctx.get_bool("ceil_mode", 0) and window.auto_pad == "NOTSET",
        column_major=ctx.get_bool("storage_order", 0),
    )
    return ctx.builder.append(op)


@handler("AveragePool")
def average_pool(ctx: NodeContext) -> SSAValue:
    """The mean of each window, with or without padding."""
    return _pool(ctx, "average", count_include_pad=ctx.get_bool("count_include_pad", 0))


@handler("LpPool")
def lp_pool(ctx: NodeContext) -> SSAValue:
    """The p-norm of each window."""
    return _pool(ctx, "lp", p=_order(ctx))


def _order(ctx: NodeContext) -> int:
    p = ctx.get_int("p")
    ctx.check(p >= 1, f"a norm of order {p} is not supported")
    return p


def _spatial_axes(ctx: NodeContext, x: SSAValue) -> list[int]:
    ctx.check(ctx.rank(x) > 2, f"data of shape {list(ctx.shape(x))} has no spatial dimensions")
    return list(range(2, ctx.rank(x)))


@handler("GlobalAveragePool")
def global_average_pool(ctx: NodeContext) -> SSAValue:
    """The mean over all spatial dimensions."""
    x = ctx.input(0)
    return ctx.emit(graph.ReduceOp(x, kind="mean", axes=_spatial_axes(ctx, x), keepdims=True))


@handler("GlobalMaxPool")
def global_max_pool(ctx: NodeContext) -> SSAValue:
    """The maximum over all spatial dimensions."""
    x = ctx.input(0)
    return ctx.emit(graph.ReduceOp(x, kind="max", axes=_spatial_axes(ctx, x), keepdims=True))


@handler("GlobalLpPool")
def global_lp_pool(ctx: NodeContext) -> SSAValue:
    """The p-norm over all spatial dimensions."""
    x, p = ctx.input(0), _order(ctx)
    axes = _spatial_axes(ctx, x)
    if p in (1, 2):
        return ctx.emit(graph.ReduceOp(x, kind=f"l{p}", axes=axes, keepdims=True))
    return ctx.emit(graph.PoolOp(x, kind="lp", kernel=ctx.shape(x)[2:], p=p))


@handler("MaxUnpool")
def max_unpool(ctx: NodeContext) -> SSAValue:
    """Maxima at their original indices, zeros elsewhere."""
    x, places = ctx.input(0), ctx.input(1)
    kernel = _kernel(ctx, x)
    shape = ctx.shape(x)
    ctx.check(ctx.shape(places) == shape, "there should be an index for each element")
    window = WindowAttributes.of(ctx, kernel)
    low, high = window.stated_pads[: len(kernel)], window.stated_pads[len(kernel) :]
    rows = zip(shape[2:], window.strides, kernel, low, high, strict=True)
    inferred = (*shape[:2], *((n - 1) * s + k - a - b for n, s, k, a, b in rows))
    ctx.check(min(inferred) >= 0, f"pads {window.stated_pads} leave nothing")
    zero = ctx.builder.dtype_of(x).type(0)
    flat = ctx.splat((math.prod(inferred),), zero)
    indices = ctx.emit(graph.ReshapeOp(places, (-1,)))
    updates = ctx.emit(graph.ReshapeOp(x, (-1,)))
    ctx.require(indices, 0, math.prod(inferred) - 1, "indices of maxima")
    filled = ctx.emit(graph.ScatterElementsOp(flat, indices, updates))
    result = ctx.emit(graph.ReshapeOp(filled, inferred))
    wanted = ctx.optional_constant_ints(2, "the shape of the result") or list(inferred)
    more = [n - own for n, own in zip(wanted, inferred, strict=False)]
    ctx.check(
        len(wanted) == len(inferred) and min(more) >= 0,
        f"a result of {wanted} does not hold {list(inferred)}",
    )
    return ctx.emit(graph.PadOp(result, low=[0] * len(more), high=more)) if any(more) else result


@handler("Col2Im")
def col2im(ctx: NodeContext) -> SSAValue:
    """Columns summed into the images from which they were extracted."""
    x = ctx.input(0)
    image = ctx.constant_ints(1, "the shape of an image")
    block = ctx.constant_ints(2, "the shape of a block")
    window = WindowAttributes.of(ctx, block)
    shape, taps, low, high = ctx.shape(x), math.prod(block), *_halves(window.stated_pads)
    ctx.check(len(low) == len(image) > 0, f"blocks {block} do not fit images {image}")
    ctx.check(min(window.stated_pads) >= 0, f"pads {list(window.stated_pads)} are negative")
    rooms = [n + a + b - k for n, a, b, k in zip(image, low, high, window.spans, strict=True)]
    positions = [room // stride + 1 for room, stride in zip(rooms, window.strides, strict=True)]
    ctx.check(
        min(rooms) >= 0 and len(shape) == 3 and shape[2] == math.prod(positions),
        f"columns {list(shape)} should have {positions} positions",
    )
    ctx.check(shape[1] % taps == 0, f"{shape[1]} rows are not a multiple of {taps} taps")
    columns = reshaped(ctx, x, (shape[0], shape[1] // taps, *block, *positions))
    return ctx.emit(
        graph.Col2ImOp(
            columns,
            image=image,
            strides=window.strides,
            pads=window.stated_pads,
            dilations=window.dilations,
        )
    )


def _halves(pads: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return pads[: len(pads) // 2], pads[len(pads) // 2 :]
