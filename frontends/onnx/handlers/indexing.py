"""Handlers of operators that read at computed indices."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.normalization import along_axis
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.arithmetic.sizes import lower_bound


def check_range(ctx: NodeContext, indices: SSAValue, extent: int) -> None:
    """Check that indices are in range, and that there is something to read."""
    ctx.check(extent != 0 or 0 in ctx.shape(indices), "there is nothing to gather from")
    ctx.require(indices, -extent, extent - 1, f"indices into an axis of {extent}")


def check_places(ctx: NodeContext, indices: SSAValue, extents: Sequence[int]) -> None:
    """Check that vectors along the last axis are indices into the first axes of a tensor."""
    shape = ctx.shape(indices)
    if not shape or shape[-1] > len(extents):
        return
    own = extents[: shape[-1]]
    if len(set(own)) == 1:
        check_range(ctx, indices, own[0])
        return
    for number, extent in enumerate(own):
        starts = [*[0] * (len(shape) - 1), number]
        column = ctx.emit(graph.SliceOp(indices, starts, [*shape[:-1], 1]))
        check_range(ctx, column, extent)


@handler("Gather")
def gather(ctx: NodeContext) -> SSAValue:
    """Slices along an axis."""
    x, indices = ctx.input(0), ctx.input(1)
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(x))
    check_range(ctx, indices, ctx.shape(x)[axis])
    place = ctx.known(indices)
    if place is not None and place.ndim == 0 and ctx.known(x) is None:
        index = int(place) if place >= 0 else int(place) + ctx.shape(x)[axis]
        if lower_bound(ctx.shape(x)[axis] - index) > 0 and lower_bound(index) >= 0:
            return _pick(ctx, x, axis, index)
    return ctx.emit(graph.GatherOp(x, indices, axis=axis))


def _pick(ctx: NodeContext, x: SSAValue, axis: int, index: int) -> SSAValue:
    """Read a constant index along an axis by a slice, which can be fused."""
    shape = list(ctx.shape(x))
    starts = [0] * len(shape)
    starts[axis], shape[axis] = index, 1
    part = ctx.emit(graph.SliceOp(x, starts, shape))
    del shape[axis]
    return ctx.emit(graph.ReshapeOp(part, shape))


@handler("GatherElements")
def gather_elements(ctx: NodeContext) -> SSAValue:
    """Elements along an axis, each with its own index."""
    x, indices = ctx.input(0), ctx.input(1)
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(x))
    check_range(ctx, indices, ctx.shape(x)[axis])
    return ctx.emit(graph.GatherElementsOp(x, indices, axis=axis))


@handler("GatherND", "com.microsoft.GatherND")
def gather_nd(ctx: NodeContext) -> SSAValue:
    """Slices at index vectors."""
    batch = ctx.get_int("batch_dims", 0)
    if 0 <= batch <= ctx.rank(ctx.input(0)):
        check_places(ctx, ctx.input(1), ctx.shape(ctx.input(0))[batch:])
    return ctx.emit(graph.GatherNdOp(ctx.input(0), ctx.input(1), batch_dims=batch))


@handler("OneHot")
def one_hot(ctx: NodeContext) -> SSAValue:
    """One-hot encoding of indices along a new axis."""
    indices, values = ctx.input(0), ctx.input(2)
    found = ctx.data_extents(ctx.input(1))
    if found is not None or ctx.has_sizes(1):
        extent = ctx.constant_int(1, "the depth")
    else:
        depth = ctx.constant(1, "the depth")
        ctx.check(
            depth.size == 1 and depth.reshape(-1)[0] > 0, "the depth should be a positive number"
        )
        extent = int(depth.reshape(-1)[0])
    if not isinstance(ctx.element(indices), IntegerType):
        indices = ctx.emit(graph.CastOp(indices, i64))
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(indices) + 1)
    return ctx.emit(graph.OneHotOp(indices, values, depth=extent, axis=axis))


@handler("Hardmax")
def hardmax(ctx: NodeContext) -> SSAValue:
    """1 at the first maximum along an axis, 0 elsewhere."""
    if 0 in ctx.shape(ctx.input(0)):
        return ctx.input(0)

    def apply(x: SSAValue, axis: int) -> SSAValue:
        place = ctx.emit(graph.ArgReduceOp(x, kind="max", axis=axis))
        values = ctx.literal([0, 1], x)
        return ctx.emit(graph.OneHotOp(place, values, depth=ctx.shape(x)[axis], axis=axis))

    return along_axis(ctx, apply, ctx.opset >= 13)


@handler("Scatter", until=11)
def scatter(ctx: NodeContext) -> SSAValue:
    """Replacement of elements along an axis; the name of ScatterElements before opset 11."""
    return _scatter_elements(ctx, "none")


@handler("ScatterElements")
def scatter_elements(ctx: NodeContext) -> SSAValue:
    """Replacement of elements along an axis, or combination with updates."""
    return _scatter_elements(ctx, ctx.get_string("reduction", "none"))


def _scatter_elements(ctx: NodeContext, reduction: str) -> SSAValue:
    x, indices, updates = ctx.input(0), ctx.input(1), ctx.input(2)
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(x))
    check_range(ctx, indices, ctx.shape(x)[axis])
    return ctx.emit(graph.ScatterElementsOp(x, indices, updates, axis=axis, reduction=reduction))


@handler("ScatterND")
def scatter_nd(ctx: NodeContext) -> SSAValue:
    """Replacement of slices at index vectors, or combination with updates."""
    reduction = ctx.get_string("reduction", "none")
    x, indices, updates = ctx.input(0), ctx.input(1), ctx.input(2)
    check_places(ctx, indices, ctx.shape(x))
    return ctx.emit(graph.ScatterNdOp(x, indices, updates, reduction=reduction))


@handler("ReverseSequence")
def reverse_sequence(ctx: NodeContext) -> SSAValue:
    """Rows reversed up to their lengths."""
    x, lengths = ctx.input(0), ctx.input(1)
    axis = ctx.axis(ctx.get_int("time_axis"), ctx.rank(x))
    batch = ctx.axis(ctx.get_int("batch_axis"), ctx.rank(x))
    ctx.require(lengths, 0, ctx.shape(x)[axis], "lengths")
    return ctx.emit(graph.ReverseSequenceOp(x, lengths, axis=axis, batch_axis=batch))


@handler("TensorScatter")
def tensor_scatter(ctx: NodeContext) -> SSAValue:
    """A cache with new rows, written from a start index that is given for each batch entry."""
    cache, update = ctx.input(0), ctx.input(1)
    shape, rank = ctx.shape(cache), ctx.rank(cache)
    axis, mode = ctx.axis(ctx.get_int("axis"), rank), ctx.get_string("mode")
    ctx.check(mode in ("linear", "circular"), f"mode cannot be {mode!r}")
    extents = ctx.shape(update)
    beside = [d for d in range(rank) if d != axis]
    ctx.check(
        axis > 0
        and len(extents) == rank
        and extents[axis] <= shape[axis]
        and all(extents[d] == shape[d] for d in beside),
        f"an update of {list(extents)} does not fit a cache of {list(shape)}",
    )
    starts = ctx.optional_input(2)
    if starts is not None:
        starts = cast(ctx, starts, i64)
        last = shape[axis] - (extents[axis] if mode == "linear" else 1)
        ctx.require(starts, 0, last, "write positions")
    modulus = shape[axis] if mode == "circular" else None
    return written(ctx, cache, update, starts, axis=axis, modulus=modulus)


def written(
    ctx: NodeContext,
    cache: SSAValue,
    update: SSAValue,
    starts: SSAValue | None,
    *,
    axis: int,
    modulus: int | None = None,
) -> SSAValue:
    """Return a cache with an update, written along an axis from a start index.

    Args:
        starts: start index of each entry of the first axis, i64; 0 by default.
        modulus: number of indices after which they start again.
    """
    extents, rank = ctx.shape(update), ctx.rank(update)
    lead = [1] * rank
    lead[axis] = extents[axis]
    places = reshaped(ctx, ctx.positions(extents[axis]), lead)
    if starts is not None:
        own = reshaped(ctx, starts, (extents[0], *[1] * (rank - 1)))
        places = ctx.emit(graph.AddOp(places, own))
    if modulus is not None:
        places = ctx.emit(graph.ModOp(places, ctx.sizes([modulus])))
    places = ctx.emit(graph.BroadcastToOp(places, extents))
    return ctx.emit(graph.ScatterElementsOp(cache, places, update, axis=axis))
