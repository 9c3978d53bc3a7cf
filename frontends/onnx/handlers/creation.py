"""Handlers of operators that create tensors: constants, shapes, ranges."""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.model.types import numpy_dtype
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
    shape = ctx.constant_ints(0, "the shape")
    ctx.check(all(extent >= 0 for extent in shape), f"shape {shape} has a negative extent")
    value = ctx.get_tensor("value")
    if value is None:
        return ctx.builder.splat(tuple(shape), np.float32(0))
    ctx.check(value.size == 1, "the value should have one element")
    if is_text(value.dtype):
        ctx.builder.check_made(*shape)
        return ctx.array(np.full(shape, value.reshape(-1)[0], TEXT))
    return ctx.builder.splat(tuple(shape), value.reshape(-1)[0])


@handler("Shape")
def shape(ctx: NodeContext) -> SSAValue:
    """The shape or a part of it, which is a constant because shapes are static."""
    extents = ctx.shape(ctx.input(0))
    start = ctx.get_int("start", 0)
    end = ctx.get_int("end") if ctx.has("end") else len(extents)
    return ctx.array(np.array(extents[slice(start, end)], np.int64))


@handler("Size")
def size(ctx: NodeContext) -> SSAValue:
    """The number of elements."""
    return ctx.array(np.array(math.prod(ctx.shape(ctx.input(0))), np.int64))


@handler("Range", "com.microsoft.Range")
def value_range(ctx: NodeContext) -> SSAValue:
    """start, start + delta, ... up to limit (exclusive); in onnxruntime, delta defaults to 1."""
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


@handler("EyeLike")
def eye_like(ctx: NodeContext) -> SSAValue:
    """Ones on a diagonal, in the shape of the operand."""
    x = ctx.input(0)
    ctx.check(ctx.rank(x) == 2, "data should be a matrix")
    number = ctx.get_int("dtype", 0)
    dtype = numpy_dtype(number, ctx.where) if number else ctx.builder.dtype_of(x)
    rows, columns = ctx.shape(x)
    ctx.builder.check_made(rows, columns)
    return ctx.array(np.eye(rows, columns, ctx.get_int("k"), dtype))
