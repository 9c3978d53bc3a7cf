"""Quantised operators, by integer products and float arithmetic."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.types import is_float, numpy_dtype
from tcopt.frontends.onnx.context import NodeContext
from tcopt.frontends.onnx.handlers.convolution import convolved
from tcopt.frontends.onnx.handlers.matrix import product
from tcopt.frontends.onnx.handlers.shaping import reshaped
from tcopt.frontends.onnx.registry import handler
from tcopt.frontends.onnx.types import element_type


def _cast(ctx: NodeContext, value: SSAValue, element: Attribute) -> SSAValue:
    return value if ctx.element(value) == element else ctx.emit(graph.CastOp(value, element))


def _along(ctx: NodeContext, value: SSAValue, axis: int, rank: int) -> SSAValue:
    """A scalar, or a vector laid along an axis of a tensor."""
    shape = ctx.shape(value)
    ctx.check(len(shape) <= 1, f"a scale or zero point of shape {list(shape)} is not supported")
    if not shape or shape == (1,):
        return reshaped(ctx, value, ())
    return reshaped(ctx, value, [shape[0] if i == axis else 1 for i in range(rank)])


def _axis(ctx: NodeContext, x: SSAValue, scale: SSAValue) -> int:
    if ctx.rank(scale) > 1 or ctx.get_int("block_size", 0):
        ctx.unsupported(f"{ctx.op_type} by blocks is not supported")
    if ctx.shape(scale) in ((), (1,)):
        return 0
    return ctx.axis(ctx.get_int("axis", 1), ctx.rank(x))


def _quantized(
    ctx: NodeContext, x: SSAValue, zero: SSAValue | None, element: Attribute
) -> SSAValue:
    """round(x) + zero point, limited to an integer type's range."""
    if is_float(element):
        ctx.unsupported(f"{ctx.op_type} to {element} is not supported")
    limits = np.iinfo(numpy_dtype(element))
    value = ctx.emit(graph.RoundOp(x))
    if zero is not None:
        value = ctx.emit(graph.AddOp(value, _cast(ctx, zero, ctx.element(x))))
    value = ctx.emit(graph.ClipOp(value, min=float(limits.min), max=float(limits.max)))
    return ctx.emit(graph.CastOp(value, element))


@handler("QuantizeLinear")
def quantize_linear(ctx: NodeContext) -> SSAValue:
    """round(x / scale) + zero point, by tensor or by axis."""
    x, scale, zero = ctx.input(0), ctx.input(1), ctx.optional_input(2)
    axis, rank = _axis(ctx, x, scale), ctx.rank(x)
    stated = ctx.get_int("output_dtype", 0)
    if zero is not None:
        element = ctx.element(zero)
        zero = _along(ctx, zero, axis, rank)
    else:
        element = element_type(stated or 2, ctx.where)
    x, scale = _cast(ctx, x, f32), _cast(ctx, _along(ctx, scale, axis, rank), f32)
    return _quantized(ctx, ctx.emit(graph.DivOp(x, scale)), zero, element)


@handler("DequantizeLinear")
def dequantize_linear(ctx: NodeContext) -> SSAValue:
    """(x - zero point) * scale, by tensor or by axis."""
    x, scale, zero = ctx.input(0), ctx.input(1), ctx.optional_input(2)
    axis, rank = _axis(ctx, x, scale), ctx.rank(x)
    wide = _minus_zero(ctx, x, None if zero is None else _along(ctx, zero, axis, rank))
    result = ctx.element(scale)
    scaled = ctx.emit(
        graph.MulOp(_cast(ctx, wide, f32), _cast(ctx, _along(ctx, scale, axis, rank), f32))
    )
    return _cast(ctx, scaled, result)


def _minus_zero(ctx: NodeContext, x: SSAValue, zero: SSAValue | None) -> SSAValue:
    """x - zero point in 32-bit integers."""
    wide = _cast(ctx, x, i32)
    return wide if zero is None else ctx.emit(graph.SubOp(wide, _cast(ctx, zero, i32)))


def _rows(ctx: NodeContext, zero: SSAValue | None) -> SSAValue | None:
    """A zero point or scale a row of a left matrix: a column."""
    if zero is None or ctx.rank(zero) != 1 or ctx.shape(zero) == (1,):
        return None if zero is None else _squeezed(ctx, zero)
    return reshaped(ctx, zero, (*ctx.shape(zero), 1))


def _squeezed(ctx: NodeContext, value: SSAValue) -> SSAValue:
    return reshaped(ctx, value, ()) if ctx.shape(value) == (1,) else value


@handler("MatMulInteger")
def matmul_integer(ctx: NodeContext) -> SSAValue:
    """Matrix product of 8-bit integers minus their zero points, in 32 bits."""
    a = _minus_zero(ctx, ctx.input(0), _rows(ctx, ctx.optional_input(2)))
    b = _minus_zero(ctx, ctx.input(1), ctx.optional_input(3))
    return product(ctx, a, b)


@handler("ConvInteger")
def conv_integer(ctx: NodeContext) -> SSAValue:
    """Convolution of 8-bit integers minus their zero points, in 32 bits."""
    x, w, zero = ctx.input(0), ctx.input(1), ctx.optional_input(3)
    offset = None if zero is None else _along(ctx, zero, 0, ctx.rank(w))
    data_zero = ctx.optional_input(2)
    data = _minus_zero(ctx, x, None if data_zero is None else _squeezed(ctx, data_zero))
    return convolved(ctx, data, _minus_zero(ctx, w, offset), None)


def _requantized(
    ctx: NodeContext, total: SSAValue, scales: tuple[SSAValue, SSAValue], out: tuple[int, int]
) -> SSAValue:
    """A 32-bit total at scale a * b to the result's scale and zero point, at `out`."""
    factor = ctx.emit(graph.MulOp(*scales))
    factor = ctx.emit(graph.DivOp(factor, _cast(ctx, _squeezed(ctx, ctx.input(out[0])), f32)))
    zero = _squeezed(ctx, ctx.input(out[1]))
    real = ctx.emit(graph.MulOp(_cast(ctx, total, f32), factor))
    return _quantized(ctx, real, zero, ctx.element(zero))


@handler("QLinearMatMul")
def qlinear_matmul(ctx: NodeContext) -> SSAValue:
    """Matrix product of quantised tensors, quantised again."""
    a_zero, a_scale = _rows(ctx, ctx.input(2)), _rows(ctx, ctx.input(1))
    assert a_scale is not None
    a = _minus_zero(ctx, ctx.input(0), a_zero)
    b = _minus_zero(ctx, ctx.input(3), _squeezed(ctx, ctx.input(5)))
    scales = (_cast(ctx, a_scale, f32), _cast(ctx, _squeezed(ctx, ctx.input(4)), f32))
    return _requantized(ctx, product(ctx, a, b), scales, (6, 7))


@handler("QLinearConv")
def qlinear_conv(ctx: NodeContext) -> SSAValue:
    """Convolution of quantised tensors, quantised again; the bias is in 32 bits."""
    rank = ctx.rank(ctx.input(0))
    x = _minus_zero(ctx, ctx.input(0), _squeezed(ctx, ctx.input(2)))
    w = _minus_zero(ctx, ctx.input(3), _along(ctx, ctx.input(5), 0, rank))
    total = convolved(ctx, x, w, ctx.optional_input(8))
    scales = (_squeezed(ctx, ctx.input(1)), _along(ctx, ctx.input(4), 1, rank))
    return _requantized(ctx, total, scales, (6, 7))
