"""Handlers of quantisation and dequantisation."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import is_float, numpy_dtype
from tcopt.dialects.graph.elementwise.quantize import (
    DequantizeOp,
    QuantizeOp,
    centred_type,
    is_quantized,
)
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import byte_like, cast, converted, plain
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.frontends.onnx.model.types import element_type
from tcopt.support.data.dtypes import is_narrow


def scalar(ctx: NodeContext, value: SSAValue) -> SSAValue:
    """Reshape a one-element scale or zero point to a scalar; keep others."""
    return reshaped(ctx, value, ()) if ctx.shape(value) == (1,) else value


def along(ctx: NodeContext, value: SSAValue, axis: int, rank: int) -> SSAValue:
    """Reshape a scale or zero point to a scalar, or to broadcast along an axis of a tensor."""
    shape = ctx.shape(value)
    ctx.check(len(shape) <= 1, f"a scale or zero point of shape {list(shape)} is not supported")
    if math.prod(shape) == 1:
        return scalar(ctx, value)
    return reshaped(ctx, value, [shape[0] if i == axis else 1 for i in range(rank)])


def zero_of(ctx: NodeContext, zero: SSAValue | None, element: Attribute) -> SSAValue:
    """Return a zero point, by default 0."""
    return ctx.array(np.zeros((), numpy_dtype(element))) if zero is None else zero


def centred(ctx: NodeContext, x: SSAValue, zero: SSAValue | None) -> SSAValue:
    """Return x minus its zero point, in the narrowest integer type that represents it."""
    element = centred_type(ctx.element(x))
    wide = cast(ctx, x, element)
    return wide if zero is None else ctx.emit(graph.SubOp(wide, cast(ctx, zero, element)))


class _Blocks:
    """Sharing of scales by elements of a tensor: all, per index of an axis, or per block of an
    axis.

    For blocks, the tensor is reshaped so that the axis is split into blocks and positions in them.
    """

    def __init__(self, ctx: NodeContext, x: SSAValue, scale: SSAValue):
        self.ctx = ctx
        self.shape, scales, rank = ctx.shape(x), ctx.shape(scale), ctx.rank(x)
        self.is_blocked = len(scales) == rank > 1
        axis = 1 if rank > 1 else 0
        self.axis = ctx.axis(ctx.get_int("axis", axis), rank) if math.prod(scales) > 1 else 0
        self.block, self.count = 1, 1
        if self.is_blocked:
            self.count = scales[self.axis]
            self.block = ctx.get_int("block_size", 0) or -(-self.shape[self.axis] // self.count)
            same = [n for i, n in enumerate(self.shape) if i != self.axis]
            fits = same == [n for i, n in enumerate(scales) if i != self.axis]
            covers = 0 <= self.count * self.block - self.shape[self.axis] < self.block
            text = f"scales {list(scales)} do not fit {list(self.shape)}"
            ctx.check(fits and covers, f"{text} in blocks of {self.block}")

    def data(self, x: SSAValue) -> SSAValue:
        """Reshape the tensor so that the scales broadcast against it."""
        if not self.is_blocked:
            return x
        missing = self.count * self.block - self.shape[self.axis]
        if missing:
            low = [0] * len(self.shape)
            high = [missing if axis == self.axis else 0 for axis in range(len(low))]
            x = self.ctx.emit(graph.PadOp(x, low=low, high=high))
        before, after = self.shape[: self.axis], self.shape[self.axis + 1 :]
        return reshaped(self.ctx, x, (*before, self.count, self.block, *after))

    def scale(self, value: SSAValue) -> SSAValue:
        """Reshape a scale or zero point to broadcast against `data`."""
        if not self.is_blocked:
            return along(self.ctx, value, self.axis, len(self.shape))
        shape = list(self.ctx.shape(value))
        shape.insert(self.axis + 1, 1)
        return reshaped(self.ctx, value, shape)

    def result(self, value: SSAValue) -> SSAValue:
        """Reshape a result to the tensor's original shape."""
        if not self.is_blocked:
            return value
        padded = [*self.shape]
        padded[self.axis] = self.count * self.block
        value = reshaped(self.ctx, value, padded)
        if tuple(padded) != self.shape:
            value = self.ctx.emit(graph.SliceOp(value, [0] * len(padded), self.shape))
        return value


@handler("QuantizeLinear", "com.microsoft.QuantizeLinear")
def quantize_linear(ctx: NodeContext) -> SSAValue:
    """round(x / scale) + zero point, saturated; scales per tensor, axis or block."""
    x, scale, zero = ctx.input(0), ctx.input(1), ctx.optional_input(2)
    stated = ctx.get_int("output_dtype", 0)
    element = element_type(stated or 2, ctx.where) if zero is None else ctx.element(zero)
    narrow = is_narrow(element)
    if not (is_quantized(element) or narrow):
        ctx.unsupported(f"{ctx.op_type} to {element} is not supported")
    blocks = _Blocks(ctx, x, scale)
    data, scales = cast(ctx, blocks.data(x), f32), cast(ctx, blocks.scale(scale), f32)
    zeros = None if zero is None else plain(ctx, blocks.scale(zero))
    if narrow and is_float(element):
        return blocks.result(_in_floats(ctx, data, scales, zeros, element))
    kept = byte_like(element) if narrow else element
    made = ctx.emit(QuantizeOp(data, scales, zero_of(ctx, zeros, kept)))
    if narrow:
        made = converted(ctx, _limited(ctx, made, element), element)
    return blocks.result(made)


def _in_floats(
    ctx: NodeContext, x: SSAValue, scale: SSAValue, zero: SSAValue | None, element: Attribute
) -> SSAValue:
    """Quantise to narrow floats, whose zero point is always 0."""
    value = ctx.emit(graph.DivOp(x, scale))
    known = ctx.known(zero)
    if zero is not None and (known is None or known.any()):
        value = ctx.emit(graph.AddOp(value, zero))
    return converted(ctx, value, element, saturate=ctx.get_bool("saturate", 1))


def _limited(ctx: NodeContext, x: SSAValue, element: Attribute) -> SSAValue:
    """Clip 8-bit integers to the range of a narrow type."""
    limits = ml_dtypes.iinfo(numpy_dtype(element))
    x = ctx.emit(graph.MaxOp(x, ctx.literal(float(limits.min), x)))
    return ctx.emit(graph.MinOp(x, ctx.literal(float(limits.max), x)))


@handler("DequantizeLinear", "com.microsoft.DequantizeLinear")
def dequantize_linear(ctx: NodeContext) -> SSAValue:
    """(x - zero point) * scale; scales per tensor, axis or block."""
    x, scale, zero = ctx.input(0), ctx.input(1), ctx.optional_input(2)
    target = ctx.get_element_type("output_dtype", 0) or ctx.element(scale)
    x, zero = plain(ctx, x), None if zero is None else plain(ctx, zero)
    blocks = _Blocks(ctx, x, scale)
    data, scales = blocks.data(x), cast(ctx, blocks.scale(scale), f32)
    if is_float(ctx.element(x)):
        # The zero point of floats is always 0.
        made = ctx.emit(graph.MulOp(data, scales))
    else:
        zeros = zero_of(ctx, None if zero is None else blocks.scale(zero), ctx.element(x))
        made = ctx.emit(DequantizeOp(data, scales, zeros))
    return cast(ctx, blocks.result(made), target)


def dynamically_quantized(ctx: NodeContext, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Quantise a tensor to 8 bits by its range; return it with its scale and zero point."""
    axes = list(range(ctx.rank(x)))
    nothing = ctx.literal(0.0, x)
    least = ctx.emit(graph.MinOp(ctx.emit(graph.ReduceOp(x, kind="min", axes=axes)), nothing))
    most = ctx.emit(graph.MaxOp(ctx.emit(graph.ReduceOp(x, kind="max", axes=axes)), nothing))
    range_ = ctx.emit(graph.SubOp(most, least))
    scale = ctx.emit(graph.DivOp(range_, ctx.literal(255.0, x)))
    # The scale of an all-zero tensor is arbitrary.
    empty = ctx.emit(graph.CompareOp(range_, nothing, predicate="eq"))
    scale = ctx.emit(graph.SelectOp(empty, ctx.literal(1.0, x), scale))
    below = ctx.emit(graph.SubOp(nothing, least))
    zero = ctx.emit(QuantizeOp(below, scale, ctx.array(np.zeros((), np.uint8))))
    return ctx.emit(QuantizeOp(x, scale, zero)), scale, zero


@handler("DynamicQuantizeLinear")
def dynamic_quantize_linear(ctx: NodeContext) -> list[SSAValue | None]:
    """Quantisation to unsigned bytes over the range of the data, extended to include 0."""
    return [*dynamically_quantized(ctx, ctx.input(0))]


def dequantized(ctx: NodeContext, x: SSAValue, scale: SSAValue, zero: SSAValue | None) -> SSAValue:
    """Dequantise a tensor with a single scale."""
    zero = zero_of(ctx, zero, ctx.element(x))
    return ctx.emit(DequantizeOp(x, scalar(ctx, scale), scalar(ctx, zero)))


def quantized(
    ctx: NodeContext, x: SSAValue, scale: SSAValue, zero: SSAValue | None, element: Attribute
) -> SSAValue:
    """Quantise a tensor with a single scale; the type is the zero point's, else `element`."""
    return ctx.emit(QuantizeOp(x, scalar(ctx, scale), scalar(ctx, zero_of(ctx, zero, element))))
