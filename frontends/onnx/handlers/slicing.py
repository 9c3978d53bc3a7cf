"""Handlers of operators that slice, split, concatenate and pad tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import as_extents
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.arithmetic.sizes import Extent, ceildiv, is_fixed, maximum, minimum, upper_bound
from tcopt.support.errors import UndecidedSize


@handler("Slice", until=10)
def slice_by_attributes(ctx: NodeContext) -> SSAValue:
    """Slice with bounds given as attributes."""
    starts, ends = ctx.get_ints("starts") or [], ctx.get_ints("ends") or []
    return _slice(ctx, starts, ends, ctx.get_ints("axes"), None)


@handler("Slice", since=10)
def slice_by_inputs(ctx: NodeContext) -> SSAValue:
    """Slice with bounds given as operands."""
    axes = ctx.optional_constant_ints(3, "the list of axes")
    steps = ctx.optional_constant_ints(4, "the step")
    bounds = [ctx.input(1), ctx.input(2)]
    for value in bounds:
        # Numbers of elements are bounded, so that only sizes that other nodes need are sizes here.
        ctx.data_extents(value, new=False)
    if any(ctx.builder.may_define(value) for value in bounds) and all(n > 0 for n in steps or ()):
        return _computed_slice(ctx, axes, steps)
    starts, ends = ctx.constant_ints(1, "the start"), ctx.constant_ints(2, "the end")
    try:
        return _slice(ctx, starts, ends, axes, steps)
    except UndecidedSize:
        # The program decides whether an index counts from the end.
        if not (ctx.builder.defines and ctx.builder.is_main) or any(n < 0 for n in steps or ()):
            raise
        return _computed_slice(ctx, axes, steps)


def _computed_slice(
    ctx: NodeContext, axes: Sequence[int] | None, steps: Sequence[int] | None
) -> SSAValue:
    """Slice with bounds that the program computes: the numbers of elements are sizes."""
    x = ctx.input(0)
    starts, ends = (
        cast(ctx, reshaped(ctx, value, (math.prod(ctx.shape(value)),)), i64)
        for value in (ctx.input(1), ctx.input(2))
    )
    (count,) = ctx.shape(starts)
    axes = ctx.axes(range(count) if axes is None else axes, ctx.rank(x))
    steps = [1] * count if steps is None else steps
    ctx.check(
        ctx.shape(ends) == (count,) and len(axes) == len(steps) == count,
        f"{count} starts, {ctx.shape(ends)} ends, {len(axes)} axes and {len(steps)} steps",
    )
    for index, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        extent = ctx.shape(x)[axis]
        first = _clamped(ctx, ctx.emit(graph.SliceOp(starts, [index], [1])), extent)
        last = _clamped(ctx, ctx.emit(graph.SliceOp(ends, [index], [1])), extent)
        length = ctx.emit(graph.SubOp(last, first))
        length = ctx.emit(graph.MaxOp(length, ctx.sizes([0])))
        if step > 1:
            length = ctx.emit(graph.AddOp(length, ctx.sizes([step - 1])))
            length = ctx.emit(graph.DivOp(length, ctx.sizes([step])))
        start = ctx.known(first)
        if start is not None:
            x = ctx.bounded(_slice_from(ctx, x, axis, int(start[0]), step), axis, length)
            continue
        size = ctx.builder.defined.define(ctx.node.output[0], length, ceildiv(extent, step))
        places = ctx.emit(graph.MulOp(ctx.positions(size), ctx.sizes([step])))
        x = ctx.emit(graph.GatherOp(x, ctx.emit(graph.AddOp(places, first)), axis=axis))
    return x


def _slice_from(ctx: NodeContext, x: SSAValue, axis: int, start: int, step: int) -> SSAValue:
    """Return every `step`-th element of a value along an axis, from an index on."""
    shape = ctx.shape(x)
    first, extents, strides = [0] * len(shape), list(shape), [1] * len(shape)
    first[axis], extents[axis] = slice_range(start, shape[axis], step, shape[axis])
    strides[axis] = step if upper_bound(extents[axis]) > 1 else 1
    if tuple(extents) == shape:
        return x
    return ctx.emit(graph.SliceOp(x, first, extents, strides))


def _clamped(ctx: NodeContext, place: SSAValue, extent: int) -> SSAValue:
    """Return an index ([1], i64) along an axis, which may count from the end, within its bounds."""
    zero, end = ctx.sizes([0]), ctx.sizes([extent])
    negative = ctx.emit(graph.CompareOp(place, zero, predicate="lt"))
    place = ctx.emit(graph.SelectOp(negative, ctx.emit(graph.AddOp(place, end)), place))
    return ctx.emit(graph.MinOp(ctx.emit(graph.MaxOp(place, zero)), end))


def _slice(
    ctx: NodeContext,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> SSAValue:
    x = ctx.input(0)
    shape = ctx.shape(x)
    axes = ctx.axes(range(len(starts)) if axes is None else axes, len(shape))
    steps = [1] * len(starts) if steps is None else steps
    ctx.check(
        len(starts) == len(ends) == len(axes) == len(steps),
        f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps",
    )
    ctx.check(0 not in steps, "a step is 0")
    first, extents, strides = [0] * len(shape), list(shape), [1] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        first[axis], extents[axis] = slice_range(start, end, step, shape[axis])
        # With at most one element the step is irrelevant; 1 is canonical.
        strides[axis] = step if upper_bound(extents[axis]) > 1 else 1
    if tuple(extents) == shape and set(strides) <= {1}:
        return x
    return ctx.emit(graph.SliceOp(x, first, extents, strides))


def slice_range(start: int, end: int, step: int, extent: int) -> tuple[int, int]:
    """Return the first index of a slice along an axis, and the number of its elements.

    Arguments but the step may be sizes.
    """
    if is_fixed((start, end, extent)):
        places = range(*slice(start, end, step).indices(extent))
        return (places.start if len(places) else 0), len(places)
    least, most = (0, extent) if step > 0 else (-1, extent - 1)

    def clamped(place: int) -> Extent:
        return minimum(maximum(place + extent if place < 0 else place, least), most)

    first, last = clamped(start), clamped(end)
    count = ceildiv(last - first if step > 0 else first - last, abs(step))
    found = as_extents((first if upper_bound(count) > 0 else 0, maximum(count, 0)))
    return found[0], found[1]


@handler("Split")
def split(ctx: NodeContext) -> list[SSAValue | None]:
    """Consecutive parts along an axis, of equal size by default."""
    x, count = ctx.input(0), len(ctx.node.output)
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(x))
    total = ctx.shape(x)[axis]
    by_operand = ctx.opset >= 13
    sizes = None if by_operand else ctx.get_ints("split")
    if by_operand and ctx.optional_input(1) is not None:
        sizes = ctx.extents(1, "the sizes", low=0)
    if sizes is None:
        parts = ctx.get_int("num_outputs", count) if ctx.opset >= 18 else count
        ctx.check(parts == count, f"num_outputs is {parts}, the node has {count} outputs")
        whole = ceildiv(total, parts)
        ctx.check(
            ctx.opset >= 18 or total % parts == 0, f"{total} does not split into {parts} parts"
        )
        ends = [minimum(i * whole, total) for i in range(parts + 1)]
        sizes = as_extents(end - start for start, end in pairwise(ends))
    for size in sizes:
        ctx.builder.values.imply_nonnegative(size)
    ctx.check(
        len(sizes) == count and all(size >= 0 for size in sizes) and sum(sizes) == total,
        f"sizes {sizes} do not split {total} into {count} parts",
    )
    results: list[SSAValue | None] = []
    start = 0
    for size in sizes:
        starts = [start if i == axis else 0 for i in range(ctx.rank(x))]
        extents = [size if i == axis else n for i, n in enumerate(ctx.shape(x))]
        part = (
            x
            if size == total
            else ctx.emit(graph.SliceOp(x, [0] * len(starts) if size == 0 else starts, extents))
        )
        results.append(part)
        start += size
    return results


@handler("Concat")
def concat(ctx: NodeContext) -> SSAValue:
    """Concatenation along an axis."""
    values = ctx.inputs()
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(values[0]))
    return values[0] if len(values) == 1 else ctx.emit(graph.ConcatOp(values, axis=axis))


@handler("Pad", until=11)
def pad_by_attributes(ctx: NodeContext) -> SSAValue:
    """Padding given as attributes."""
    x = ctx.input(0)
    value = ctx.get_float("value", 0.0)
    pads = ctx.get_ints("pads") or []
    return _pad(ctx, pads, None, ctx.literal(value, x) if value else None)


@handler("com.microsoft.Pad")
def pad_by_row(ctx: NodeContext) -> SSAValue:
    """Padding given as operands; the counts are a vector or a single row."""
    counts = ctx.constant(1, "the padding").reshape(-1)
    value = ctx.optional_input(2)
    value = None if value is None else reshaped(ctx, value, ())
    return _pad(ctx, [int(count) for count in counts], None, value)


@handler("Pad", since=11)
def pad_by_inputs(ctx: NodeContext) -> SSAValue:
    """Padding given as operands."""
    value = ctx.optional_input(2)
    if value is not None and ctx.rank(value) > 0:
        value = reshaped(ctx, value, ())
    axes = ctx.optional_constant_ints(3, "the list of axes")
    return _pad(ctx, ctx.extents(1, "the padding", low=0), axes, value)


def _pad(
    ctx: NodeContext, pads: Sequence[int], axes: Sequence[int] | None, value: SSAValue | None
) -> SSAValue:
    x = ctx.input(0)
    rank = ctx.rank(x)
    axes = ctx.axes(range(rank) if axes is None else axes, rank)
    ctx.check(len(pads) == 2 * len(axes), f"pads {list(pads)} should have {2 * len(axes)} entries")
    low, high = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        low[axis], high[axis] = pads[index], pads[index + len(axes)]
    if all(count == 0 for count in (*low, *high)):
        return x
    mode = ctx.get_string("mode")
    ctx.check(mode in ("constant", "reflect", "edge", "wrap"), f"mode cannot be {mode!r}")
    if mode == "constant":
        return ctx.emit(graph.PadOp(x, value, low=low, high=high))
    if any(count < 0 for count in (*low, *high)):
        cropped = [[min(count, 0) for count in counts] for counts in (low, high)]
        # Crop first, as in onnxruntime: cropped elements are not repeated.
        x = ctx.emit(graph.PadOp(x, low=cropped[0], high=cropped[1]))
        low, high = ([max(count, 0) for count in counts] for counts in (low, high))
    return ctx.emit(graph.PadOp(x, low=low, high=high, mode=mode))
