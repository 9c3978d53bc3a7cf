"""Handlers of operators that interpolate at computed positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.context.windows import WindowAttributes
from tcopt.support.arithmetic.sizes import is_fixed

_MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic"}


@handler("GridSample", "com.microsoft.GridSample")
def grid_sample(ctx: NodeContext) -> SSAValue:
    """Interpolation at positions in [-1, 1]; the last coordinate is along the first dimension."""
    x, grid = ctx.input(0), ctx.input(1)
    shape, rank = ctx.shape(x), ctx.rank(x) - 2
    places = ctx.shape(grid)
    ctx.check(
        rank >= 1 and len(places) == rank + 2 and places[-1] == rank and places[0] == shape[0],
        f"a grid of {list(places)} holds no positions in data of {list(shape)}",
    )
    mode, padding = ctx.get_string("mode"), ctx.get_string("padding_mode")
    ctx.check(mode == "nearest" or mode in _MODES, f"mode cannot be {mode!r}")
    ctx.check(padding in ("zeros", "border", "reflection"), f"padding_mode cannot be {padding!r}")
    corners = ctx.get_bool("align_corners")
    # Coordinates come first, in the order of the dimensions.
    front = ctx.emit(graph.TransposeOp(grid, [0, rank + 1, *range(1, rank + 1)]))
    turned = ctx.array(np.arange(rank)[::-1].copy())
    front = ctx.emit(graph.GatherOp(front, turned, axis=1))
    ends = [extent - 1 for extent in shape[2:]]
    scaled = ctx.emit(graph.MulOp(front, _halves(ctx, ends if corners else shape[2:], front)))
    absolute = ctx.emit(graph.AddOp(scaled, _halves(ctx, ends, front)))
    # With channels last, the neighbours of a position are found once for all channels.
    last = shape[1] > 1
    if last:
        x = ctx.emit(graph.TransposeOp(x, [0, *range(2, rank + 2), 1]))
    sampled = ctx.emit(
        graph.SampleOp(
            x,
            absolute,
            mode=_MODES.get(mode, mode),
            padding=padding,
            half_border=not corners,
            channels_last=last,
        )
    )
    if not last:
        return sampled
    return ctx.emit(graph.TransposeOp(sampled, [0, rank + 1, *range(1, rank + 1)]))


def _halves(ctx: NodeContext, extents: Sequence[int], like: SSAValue) -> SSAValue:
    """Return half of the extents as a column [1, rank, 1...]."""
    column = (1, len(extents), *[1] * len(extents))
    if is_fixed(extents):
        return ctx.literal((np.array(extents, np.float64) / 2).reshape(column), like)
    numbers = ctx.emit(graph.CastOp(ctx.sizes(extents), ctx.element(like)))
    half = ctx.emit(graph.MulOp(numbers, ctx.literal(0.5, like)))
    return ctx.emit(graph.ReshapeOp(half, column))


@handler("DeformConv")
def deform_conv(ctx: NodeContext) -> SSAValue:
    """Convolution with offsets added to tap positions: sampling followed by a matrix product."""
    x, w, offset = ctx.input(0), ctx.input(1), ctx.input(2)
    bias, mask = ctx.optional_input(3), ctx.optional_input(4)
    kernel = ctx.get_ints("kernel_shape") or list(ctx.shape(w)[2:])
    ctx.check(ctx.rank(x) == 4 and len(kernel) == 2, "data should have two spatial dimensions")
    window = WindowAttributes.of(ctx, kernel)
    batch, channels = ctx.shape(x)[:2]
    group, parts = ctx.get_int("group", 1), ctx.get_int("offset_group", 1)
    taps, out = math.prod(kernel), ctx.shape(offset)[2:]
    ctx.check(
        group > 0 and parts > 0 and channels % group == 0 and channels % parts == 0,
        f"{channels} channels do not divide into {group} groups or {parts} of offsets",
    )
    ctx.check(
        ctx.shape(offset) == (batch, parts * taps * 2, *out),
        f"offsets of {list(ctx.shape(offset))} do not fit {parts} groups of {taps} taps",
    )
    moved = ctx.emit(graph.ReshapeOp(offset, (batch * parts, taps, 2, *out)))
    moved = ctx.emit(graph.TransposeOp(moved, [0, 2, 1, 3, 4]))
    still = _tap_places(window, kernel, out).reshape(1, 2, taps, *out)
    places = ctx.emit(graph.AddOp(moved, ctx.literal(still, offset)))
    split = (batch * parts, channels // parts)
    data = ctx.emit(graph.ReshapeOp(x, (*split, *ctx.shape(x)[2:])))
    sampled = ctx.emit(graph.SampleOp(data, places))
    if mask is not None:
        factor = ctx.emit(graph.ReshapeOp(mask, (batch * parts, 1, taps, *out)))
        sampled = ctx.emit(graph.MulOp(sampled, factor))
    depth, filters = channels // group * taps, ctx.shape(w)[0]
    rows = ctx.emit(graph.ReshapeOp(sampled, (batch, group, depth, math.prod(out))))
    weights = ctx.emit(graph.ReshapeOp(w, (1, group, filters // group, depth)))
    product = ctx.emit(graph.MatmulOp(weights, rows))
    result = ctx.emit(graph.ReshapeOp(product, (batch, filters, *out)))
    if bias is None:
        return result
    column = ctx.emit(graph.ReshapeOp(bias, (1, filters, 1, 1)))
    return ctx.emit(graph.AddOp(result, column))


def _tap_places(window: WindowAttributes, kernel: list[int], out: tuple[int, ...]) -> np.ndarray:
    """Return the tap positions without offsets: [2, *kernel, *out]."""
    places = np.zeros((2, *kernel, *out))
    for d in range(2):
        taps = np.arange(kernel[d]) * window.dilations[d] - window.stated_pads[d]
        starts = np.arange(out[d]) * window.strides[d]
        lead = [1] * 4
        lead[d], lead[2 + d] = kernel[d], out[d]
        places[d] = (taps[:, None] + starts[None, :]).reshape(lead)
    return places


_MOST_SAMPLES = 1024
"""Maximum number of samples per bin and side; more would not change the mean noticeably."""


@handler("RoiAlign", until=16)
def roi_align_from_corners(ctx: NodeContext) -> SSAValue:
    """Pooling of regions; elements are at integer coordinates."""
    return _roi_align(ctx, half_pixel=False)


@handler("RoiAlign", since=16)
def roi_align(ctx: NodeContext) -> SSAValue:
    """Pooling of regions; elements are at the centres of pixels if requested."""
    mode = ctx.get_string("coordinate_transformation_mode")
    ctx.check(
        mode in ("half_pixel", "output_half_pixel"),
        f"coordinate_transformation_mode cannot be {mode!r}",
    )
    return _roi_align(ctx, half_pixel=mode == "half_pixel")


def _roi_align(ctx: NodeContext, *, half_pixel: bool) -> SSAValue:
    mode = ctx.get_string("mode")
    ctx.check(mode in ("avg", "max"), f"mode cannot be {mode!r}")
    samples = ctx.get_int("sampling_ratio")
    ctx.check(
        0 <= samples <= _MOST_SAMPLES,
        f"sampling_ratio {samples} should be from 0 to {_MOST_SAMPLES}",
    )
    batch = ctx.shape(ctx.input(0))[0]
    ctx.require(ctx.input(2), 0, batch - 1, "image indices")
    pooled = ctx.emit(
        graph.RoiAlignOp(
            ctx.emit(graph.TransposeOp(ctx.input(0), [0, 2, 3, 1])),
            ctx.input(1),
            ctx.input(2),
            size=[ctx.get_int("output_height"), ctx.get_int("output_width")],
            samples=samples,
            scale=ctx.get_float("spatial_scale"),
            maximum=mode == "max",
            half_pixel=half_pixel,
        )
    )
    return ctx.emit(graph.TransposeOp(pooled, [0, 3, 1, 2]))
