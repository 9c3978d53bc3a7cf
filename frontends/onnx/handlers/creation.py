"""Handlers of operators that create tensors: constants, shapes, ranges."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import f64, i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.size_values import whole_numbers
from tcopt.dialects.graph.core.types import as_extent, as_extents, element_of
from tcopt.frontends.onnx.context.builder import name_hint
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.frontends.onnx.model.types import numpy_dtype
from tcopt.support.arithmetic.sizes import ceildiv, maximum, minimum
from tcopt.support.data.strings import TEXT, array_of_texts, is_text


@handler("Constant")
def constant(ctx: NodeContext) -> SSAValue:
    """A tensor given by one of several attributes."""
    ctx.check(len(ctx.node.attribute) == 1, "there should be one value")
    tensor = ctx.get_tensor("value")
    if tensor is not None:
        return ctx.builder.constant(tensor, ctx.node.output[0])
    if ctx.has("value_float"):
        return ctx.array(np.array(ctx.get_float("value_float"), np.float32))
    if ctx.has("value_int"):
        return ctx.array(np.array(ctx.get_int("value_int"), np.int64))
    if ctx.has("value_floats"):
        return ctx.array(np.array(ctx.get_floats("value_floats"), np.float32))
    if ctx.has("value_ints"):
        return ctx.array(np.array(ctx.get_ints("value_ints"), np.int64))
    if ctx.has("value_string"):
        return ctx.array(np.array(ctx.get_string("value_string"), TEXT))
    if ctx.has("value_strings"):
        return ctx.array(
            array_of_texts(strings := ctx.get_strings("value_strings") or [], [len(strings)])
        )
    sparse = ctx.get_sparse_tensor("sparse_value")
    if sparse is not None:
        return ctx.builder.constant(sparse, ctx.node.output[0])
    ctx.unsupported(f"Constant with attribute {ctx.node.attribute[0].name} is not supported")


@handler("ConstantOfShape")
def constant_of_shape(ctx: NodeContext) -> SSAValue:
    """A tensor with a single repeated value."""
    shape = ctx.extents(0, "the shape", low=0)
    ctx.check(all(extent >= 0 for extent in shape), f"shape {shape} has a negative extent")
    value = ctx.get_tensor("value")
    if value is None:
        return ctx.splat(shape, np.float32(0))
    ctx.check(value.size == 1, "the value should have one element")
    if is_text(value.dtype):
        ctx.builder.check_made(*shape)
        return ctx.array(np.full(shape, value.reshape(-1)[0], TEXT))
    return ctx.splat(shape, value.reshape(-1)[0])


@handler("Shape")
def shape(ctx: NodeContext) -> SSAValue:
    """The shape or a part of it: a vector of numbers and sizes."""
    extents = ctx.shape(ctx.input(0))
    start = ctx.get_int("start", 0)
    end = ctx.get_int("end") if ctx.has("end") else len(extents)
    return ctx.sizes(extents[slice(start, end)])


@handler("Size")
def size(ctx: NodeContext) -> SSAValue:
    """The number of elements."""
    return ctx.sizes(math.prod(ctx.shape(ctx.input(0))))


@handler("Range", "com.microsoft.Range")
def value_range(ctx: NodeContext) -> SSAValue:
    """start, start + delta, ... up to limit (exclusive); in onnxruntime, delta defaults to 1."""
    if any(ctx.has_sizes(index) for index in range(len(ctx.operands))):
        return _range_of_sizes(ctx)
    computed = _computed_range(ctx)
    if computed is not None:
        return computed
    start, limit, *rest = (
        ctx.constant(i, f"the {what}").reshape(-1)[0]
        for i, what in enumerate(("start", "limit", "step")[: max(len(ctx.operands), 2)])
    )
    delta = rest[0] if rest else start.dtype.type(1)
    ctx.check(delta != 0, "the step is 0")
    count = max(math.ceil((float(limit) - float(start)) / float(delta)), 0)
    ctx.builder.check_made(count)
    dtype = start.dtype
    return ctx.array((start + np.arange(count).astype(dtype) * delta).astype(dtype))


def _computed_range(ctx: NodeContext) -> SSAValue | None:
    """Return a range whose ends the program computes; None if it has to know their numbers."""
    start, limit, *rest = ctx.inputs()
    is_open = [ctx.builder.may_define(value) for value in (start, limit, *rest)]
    if not any(is_open):
        return None
    # Other nodes may have the limit as a size.
    if is_open == [False, True, False][: len(is_open)] and ctx.data_extents(limit, low=0):
        return _range_of_sizes(ctx)
    step = rest[0] if rest else ctx.literal(1, start)
    first, last, by = (
        ctx.emit(graph.CastOp(reshaped(ctx, value, (1,)), f64)) for value in (start, limit, step)
    )
    steps = ctx.emit(graph.DivOp(ctx.emit(graph.SubOp(last, first)), by))
    count = ctx.emit(graph.CastOp(ctx.emit(graph.CeilOp(steps)), i64))
    count = ctx.emit(graph.MaxOp(count, ctx.sizes([0])))
    count.name_hint = name_hint(ctx.node.output[0])
    extents = ctx.data_extents(count, low=0)
    if extents is None:
        return None
    places = ctx.emit(graph.IotaOp(tuple(extents), ctx.element(start)))
    return ctx.emit(graph.AddOp(start, ctx.emit(graph.MulOp(places, step))))


def _range_of_sizes(ctx: NodeContext) -> SSAValue:
    """Return a range whose ends are sizes: an affine function of its indices."""
    for operand in ctx.inputs():
        known = ctx.known(operand)
        if known is not None and whole_numbers(known) is None:
            ctx.unsupported("a Range to a size with a fractional start or step is not supported")
    start, limit = ctx.constant_int(0, "the start"), ctx.constant_int(1, "the limit")
    delta = 1 if ctx.optional_input(2) is None else ctx.constant_int(2, "the step")
    ctx.check(delta != 0, "the step is 0")
    count = ceildiv(limit - start if delta > 0 else start - limit, abs(delta))
    shape = as_extents([maximum(count, 0)])
    places = ctx.emit(graph.IotaOp(shape, ctx.element(ctx.input(0))))
    if delta != 1:
        places = ctx.emit(graph.MulOp(places, ctx.literal(delta, places)))
    return places if start == 0 else ctx.emit(graph.AddOp(places, ctx.input(0)))


@handler("EyeLike")
def eye_like(ctx: NodeContext) -> SSAValue:
    """Ones on a diagonal, in the shape of the operand."""
    x = ctx.input(0)
    ctx.check(ctx.rank(x) == 2, "data should be a matrix")
    number = ctx.get_int("dtype", 0)
    dtype = numpy_dtype(number, ctx.where) if number else ctx.builder.dtype_of(x)
    rows, columns = ctx.shape(x)
    # A diagonal further away is as empty as the one next to the matrix.
    diagonal = as_extent(maximum(minimum(ctx.get_int("k"), columns), -rows))
    row = ctx.positions(rows, start=diagonal)
    row = ctx.emit(graph.ReshapeOp(row, (rows, 1)))
    ones = ctx.emit(graph.CompareOp(row, ctx.positions(columns), predicate="eq"))
    return cast(ctx, ones, element_of(dtype))
