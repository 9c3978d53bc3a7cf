"""Handlers of TopK."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.shaping import reshaped


@handler("TopK", until=10)
def top_k_by_attribute(ctx: NodeContext) -> list[SSAValue]:
    """The k largest elements along an axis."""
    return _top_k(ctx, ctx.get_int("k"), smallest=False)


@handler("TopK", since=10)
def top_k_by_input(ctx: NodeContext) -> list[SSAValue]:
    """The k largest or smallest elements along an axis; the result is always sorted."""
    smallest = not ctx.get_bool("largest", 1)
    if ctx.builder.may_define(ctx.input(1)):
        return _first_of_all(ctx, smallest=smallest)
    return _top_k(ctx, ctx.constant_int(1, "k"), smallest=smallest)


def _first_of_all(ctx: NodeContext, *, smallest: bool) -> list[SSAValue]:
    """Sort whole rows, and return the first elements, whose number the program computes."""
    x, k = ctx.input(0), ctx.input(1)
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(x))
    extent = ctx.shape(x)[axis]
    ctx.require(k, 0, extent, "k")
    results = _top_k(ctx, extent, smallest=smallest)
    count = reshaped(ctx, k, (1,))
    return [ctx.bounded(result, axis, count) for result in results]


def _top_k(ctx: NodeContext, k: int, *, smallest: bool) -> list[SSAValue]:
    x = ctx.input(0)
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(x))
    shape = list(ctx.shape(x))
    ctx.check(0 <= k <= shape[axis], f"k is {k}, the axis has {shape[axis]} elements")
    order = [d for d in range(len(shape)) if d != axis] + [axis]
    back = [order.index(d) for d in range(len(shape))]
    beside = [shape[d] for d in order[:-1]]
    rows = ctx.emit(graph.TransposeOp(x, order))
    rows = ctx.emit(graph.ReshapeOp(rows, (math.prod(beside), shape[axis])))
    results: list[SSAValue] = []
    for part in ctx.builder.append(graph.TopKOp(rows, k, smallest=smallest)):
        whole = ctx.emit(graph.ReshapeOp(part, (*beside, k)))
        results.append(ctx.emit(graph.TransposeOp(whole, back)))
    return results
