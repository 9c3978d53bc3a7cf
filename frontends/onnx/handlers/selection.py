"""Handlers of operators whose result shapes depend on data.

Results have their maximum possible shape; `ctx.bounded` sets the valid extent.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import as_extent
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.support.arithmetic.sizes import minimum


def _gather(ctx: NodeContext, x: SSAValue, places: SSAValue, axis: int = 0) -> SSAValue:
    return ctx.emit(graph.GatherOp(x, places, axis=axis))


def nonzero_indices(ctx: NodeContext, flags: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return the indices at which a vector of conditions holds, and their number."""
    places, count = ctx.builder.append(graph.NonzeroOp(flags))
    return places, count


@handler("NonZero")
def non_zero(ctx: NodeContext) -> SSAValue:
    """The indices of nonzero elements, one per column."""
    x = ctx.input(0)
    if ctx.known(x) is not None or not ctx.may_bound or 0 in ctx.shape(x):
        if 0 in ctx.shape(x):
            return ctx.array(np.zeros((max(ctx.rank(x), 1), 0), np.int64))
        places = np.nonzero(np.atleast_1d(ctx.constant(0, "the data")))
        return ctx.array(np.array(places, np.int64))
    shape = ctx.shape(x) or (1,)
    flags = reshaped(ctx, cast(ctx, x, i1), (math.prod(shape),))
    places, count = nonzero_indices(ctx, flags)
    rows: list[SSAValue] = []
    for axis, extent in enumerate(shape):
        below = ctx.sizes(math.prod(shape[axis + 1 :]))
        row = ctx.emit(graph.DivOp(places, below))
        row = ctx.emit(graph.ModOp(row, ctx.sizes(extent)))
        rows.append(reshaped(ctx, row, (1, math.prod(shape))))
    return ctx.bounded(ctx.emit(graph.ConcatOp(rows, axis=0)), 1, count)


@handler("Compress")
def compress(ctx: NodeContext) -> SSAValue:
    """The slices along an axis, or elements, where a condition holds."""
    x, condition = ctx.input(0), ctx.input(1)
    axis = 0
    if ctx.has("axis"):
        axis = ctx.axis(ctx.get_int("axis"), ctx.rank(x))
    else:
        x = reshaped(ctx, x, (math.prod(ctx.shape(x)),))
    length = math.prod(ctx.shape(condition))
    ctx.check(length <= ctx.shape(x)[axis], "the condition is longer than the axis")
    if ctx.known(condition) is not None or not ctx.may_bound or not length:
        known = ctx.constant(1, "the condition").reshape(-1) if length else np.zeros(0, bool)
        return _gather(ctx, x, ctx.array(np.flatnonzero(known).astype(np.int64)), axis)
    places, count = nonzero_indices(ctx, reshaped(ctx, condition, (length,)))
    return ctx.bounded(_gather(ctx, x, places, axis), axis, count)


@handler("Unique")
def unique(ctx: NodeContext) -> list[SSAValue | None]:
    """Distinct elements or slices along an axis; first indices, inverse indices and counts."""
    x = ctx.input(0)
    shape, axis = ctx.shape(x), 0
    if ctx.has("axis"):
        axis = ctx.axis(ctx.get_int("axis"), len(shape))
        order = [axis, *(d for d in range(len(shape)) if d != axis)]
        rows = ctx.emit(graph.TransposeOp(x, order))
        width = math.prod(n for d, n in enumerate(shape) if d != axis)
        rows = reshaped(ctx, rows, (shape[axis], width))
    else:
        x = reshaped(ctx, x, (math.prod(shape),))
        rows = reshaped(ctx, x, (math.prod(shape), 1))
    if 0 in ctx.shape(rows):
        return _unique_of_nothing(ctx, x, axis)
    if not ctx.may_bound:
        ctx.constant(0, "the data")
        ctx.unsupported("Unique in a loop that is not unrolled is not supported")
    if ctx.is_text(ctx.input(0)):
        rows = ctx.host("string_ranks", [rows], ctx.shape(rows), i64)
    count = ctx.shape(rows)[0]
    sorted_places, starts, number = _groups(ctx, rows)
    group = ctx.emit(graph.CumsumOp(cast(ctx, starts, i64), axis=0))
    group = ctx.emit(graph.SubOp(group, ctx.sizes(1)))
    # By sorted position: the start of each group, and the index of its first element.
    begins, _ = nonzero_indices(ctx, starts)
    first = _gather(ctx, sorted_places, begins)
    counts = ctx.emit(graph.SubOp(_ends(ctx, begins, number, count), begins))
    inverse = _scattered(ctx, sorted_places, group, count)
    if not ctx.get_bool("sorted", 0):
        own = ctx.emit(graph.IotaOp((count,), i64))
        is_first = ctx.emit(graph.CompareOp(_gather(ctx, first, inverse), own, predicate="eq"))
        rank = ctx.emit(graph.CumsumOp(cast(ctx, is_first, i64), axis=0))
        rank = ctx.emit(graph.SubOp(rank, ctx.sizes(1)))
        # New number of an element's group: the rank of the group's first element.
        counts_of_place = _gather(ctx, counts, inverse)
        inverse = _gather(ctx, rank, _gather(ctx, first, inverse))
        first, _ = nonzero_indices(ctx, is_first)
        counts = _gather(ctx, counts_of_place, first)
    values = ctx.bounded(_gather(ctx, x, first, axis), axis, number)
    return [values, ctx.bounded(first, 0, number), inverse, ctx.bounded(counts, 0, number)]


def _unique_of_nothing(ctx: NodeContext, x: SSAValue, axis: int) -> list[SSAValue | None]:
    """Return the results of Unique for data without elements, whose slices are all equal."""
    shape = list(ctx.shape(x))
    count = shape[axis]
    shape[axis] = min(count, 1)
    values = ctx.emit(graph.SliceOp(x, [0] * len(shape), shape))
    numbers = ([0], np.zeros(count), [count])
    extents = (shape[axis], count, shape[axis])
    pairs = zip(numbers, extents, strict=True)
    return [values, *(ctx.array(np.array(v[:n], np.int64)) for v, n in pairs)]


def _groups(ctx: NodeContext, rows: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Sort rows: return the order, whether each row starts a group of equals, and their number."""
    count, width = ctx.shape(rows)
    (places,) = ctx.builder.append(graph.ArgsortRowsOp(rows))
    ordered = _gather(ctx, rows, places)
    starts = ctx.array(np.ones(1, np.bool_))
    if count != 1:
        above = ctx.emit(graph.SliceOp(ordered, [0, 0], (count - 1, width)))
        below = ctx.emit(graph.SliceOp(ordered, [1, 0], (count - 1, width)))
        differs = ctx.emit(graph.NotOp(ctx.emit(graph.CompareOp(above, below, predicate="eq"))))
        total = ctx.emit(graph.ReduceOp(cast(ctx, differs, i64), kind="max", axes=[1]))
        differs = cast(ctx, reshaped(ctx, total, (count - 1,)), i1)
        starts = ctx.emit(graph.ConcatOp([starts, differs], axis=0))
    _, number = nonzero_indices(ctx, starts)
    return places, starts, number


def _ends(ctx: NodeContext, begins: SSAValue, number: SSAValue, count: int) -> SSAValue:
    """Return the end of each of `number` groups: the start of the next one, or the total count."""
    last = ctx.sizes([count])
    if count == 1:
        return last
    following = ctx.emit(graph.SliceOp(begins, [1], (count - 1,)))
    following = ctx.emit(graph.ConcatOp([following, last], axis=0))
    place = ctx.emit(graph.IotaOp((count,), i64))
    next_place = ctx.emit(graph.AddOp(place, ctx.sizes(1)))
    inside = ctx.emit(graph.CompareOp(next_place, number, predicate="lt"))
    return ctx.emit(graph.SelectOp(inside, following, last))


def _scattered(ctx: NodeContext, places: SSAValue, values: SSAValue, count: int) -> SSAValue:
    """Scatter values to indices that are a permutation."""
    zeros = ctx.splat((count,), np.int64(0))
    return ctx.emit(graph.ScatterElementsOp(zeros, places, values, axis=0))


@handler("NonMaxSuppression")
def non_max_suppression(ctx: NodeContext) -> SSAValue:
    """Boxes that overlap no better box of their class, as (batch, class, box) triples."""
    boxes, scores = ctx.input(0), ctx.input(1)
    batch, count, _ = ctx.shape(boxes)
    classes = ctx.shape(scores)[1]
    ctx.check(ctx.shape(scores) == (batch, classes, count), "boxes and scores do not fit")
    given = ctx.known(ctx.optional_input(2)) if ctx.optional_input(2) else np.zeros(1)
    most = count if given is None else max(0, int(given.reshape(-1)[0]))
    limit = as_extent(minimum(count, most))
    if 0 in (batch, classes, limit):
        return ctx.array(np.zeros((0, 3), np.int64))
    if not ctx.may_bound:
        ctx.constant(0, "the boxes")
        ctx.constant(1, "the scores")
        ctx.unsupported("NonMaxSuppression in a loop that is not unrolled is not supported")
    bounds = [
        _bound(ctx, 2, np.zeros(1, np.int64)),
        _bound(ctx, 3, np.zeros(1, np.float32)),
        _bound(ctx, 4, np.full(1, -np.inf, np.float32)),
    ]
    is_centred = bool(ctx.get_int("center_point_box"))
    made = graph.NonMaxSuppressionOp(boxes, scores, *bounds, limit=limit, centred=is_centred)
    selected, number = ctx.builder.append(made)
    return ctx.bounded(selected, 0, number)


def _bound(ctx: NodeContext, index: int, default: np.ndarray) -> SSAValue:
    value = ctx.optional_input(index)
    return ctx.array(default) if value is None else reshaped(ctx, value, (1,))
