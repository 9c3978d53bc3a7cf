"""Handler of MaxRoiPool."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import numpy_dtype
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.shaping import reshaped


@handler("MaxRoiPool")
def max_roi_pool(ctx: NodeContext) -> SSAValue:
    """Maximum of each bin of regions, whose corners are rounded to integers (Fast R-CNN).

    The maximum over the elements in a bin is taken along rows first, then along columns.
    """
    x, rois = ctx.input(0), ctx.input(1)
    size = ctx.get_ints("pooled_shape") or []
    ctx.check(ctx.rank(x) == 4 and len(size) == 2 and min(size) > 0, "data should be images")
    count = ctx.shape(rois)[0]
    ctx.check(ctx.shape(rois) == (count, 5), f"regions {list(ctx.shape(rois))} are not [{count},5]")
    images = cast(ctx, _column(ctx, rois, 0), i64)
    ctx.require(images, 0, ctx.shape(x)[0] - 1, "image indices")
    value = ctx.emit(graph.GatherOp(x, reshaped(ctx, images, (count,)), axis=0))
    lowest = ctx.literal(np.finfo(numpy_dtype(ctx.element(x))).min, x)
    for axis in (3, 2):
        bins, extent = size[axis - 2], ctx.shape(x)[axis]
        inside = _inside(ctx, rois, 4 - axis, bins, extent)
        shape = list(ctx.shape(value))
        shape.insert(axis, 1)
        lead = [count, 1, 1, 1, 1]
        lead[axis], lead[axis + 1] = bins, extent
        chosen = ctx.emit(
            graph.SelectOp(reshaped(ctx, inside, lead), reshaped(ctx, value, shape), lowest)
        )
        value = ctx.emit(graph.ReduceOp(chosen, kind="max", axes=[axis + 1]))
    some = ctx.emit(graph.CompareOp(value, lowest, predicate="gt"))
    return ctx.emit(graph.SelectOp(some, value, ctx.literal(0.0, value)))


def _column(ctx: NodeContext, rois: SSAValue, place: int) -> SSAValue:
    """Return one column of the regions, [regions, 1]."""
    return ctx.emit(graph.SliceOp(rois, [0, place], [ctx.shape(rois)[0], 1]))


def _rounded(ctx: NodeContext, value: SSAValue) -> SSAValue:
    """Round to the nearest integers; ties are rounded away from zero."""
    size = ctx.emit(graph.AddOp(ctx.emit(graph.AbsOp(value)), ctx.literal(0.5, value)))
    return ctx.emit(graph.MulOp(ctx.emit(graph.SignOp(value)), ctx.emit(graph.FloorOp(size))))


def _inside(ctx: NodeContext, rois: SSAValue, place: int, bins: int, extent: int) -> SSAValue:
    """Return whether each element along an axis is in each bin: [regions, bins, extent]."""
    count, scale = ctx.shape(rois)[0], ctx.literal(ctx.get_float("spatial_scale"), rois)
    ends = [
        _rounded(ctx, ctx.emit(graph.MulOp(_column(ctx, rois, at), scale)))
        for at in (place, place + 2)
    ]
    one = ctx.literal(1.0, rois)
    length = ctx.emit(graph.AddOp(ctx.emit(graph.SubOp(ends[1], ends[0])), one))
    step = ctx.emit(graph.DivOp(ctx.emit(graph.MaxOp(length, one)), ctx.literal(float(bins), rois)))
    numbers = np.arange(bins + 1).reshape(1, -1)
    low = ctx.emit(graph.MulOp(step, ctx.literal(numbers[:, :-1], rois)))
    high = ctx.emit(graph.MulOp(step, ctx.literal(numbers[:, 1:], rois)))
    first = ctx.emit(graph.AddOp(ctx.emit(graph.FloorOp(low)), ends[0]))
    last = ctx.emit(graph.AddOp(ctx.emit(graph.CeilOp(high)), ends[0]))
    own = ctx.literal(np.arange(extent).reshape(1, 1, -1), rois)
    after = ctx.emit(graph.CompareOp(own, reshaped(ctx, first, (count, bins, 1)), predicate="ge"))
    before = ctx.emit(graph.CompareOp(own, reshaped(ctx, last, (count, bins, 1)), predicate="lt"))
    return ctx.emit(graph.AndOp(after, before))
