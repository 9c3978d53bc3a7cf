"""Handlers of products and convolutions of quantised tensors, computed on integers."""

from __future__ import annotations

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.elementwise.quantize import RequantizeOp
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.convolution import convolved
from tcopt.frontends.onnx.handlers.matrix import product
from tcopt.frontends.onnx.handlers.quantization import (
    along,
    cast,
    centred,
    dynamically_quantized,
    scalar,
)
from tcopt.frontends.onnx.handlers.shaping import reshaped


def _rows(ctx: NodeContext, value: SSAValue | None) -> SSAValue | None:
    """Return a zero point or scale per row of a left matrix, as a column."""
    if value is None or ctx.rank(value) != 1 or ctx.shape(value) == (1,):
        return value and scalar(ctx, value)
    return reshaped(ctx, value, (*ctx.shape(value), 1))


def one_or_columns(ctx: NodeContext, value: SSAValue | None) -> SSAValue | None:
    """Return a zero point as a scalar if it has one element; otherwise one for each column."""
    return value and scalar(ctx, value)


def _conv_sum(
    ctx: NodeContext,
    x: tuple[SSAValue, SSAValue | None],
    w: tuple[SSAValue, SSAValue | None],
    bias: SSAValue | None = None,
) -> SSAValue:
    """Convolve two tensors with zero points, with 32-bit accumulators."""
    ctx.check(not ctx.get_int("channels_last", 0), "channels_last is not supported")
    (data, data_zero), (weights, zero) = x, w
    offset = None if zero is None else along(ctx, zero, 0, ctx.rank(weights))
    return convolved(
        ctx,
        centred(ctx, data, data_zero and scalar(ctx, data_zero)),
        centred(ctx, weights, offset),
        bias,
        result_element=i32,
    )


@handler("MatMulInteger")
def matmul_integer(ctx: NodeContext) -> SSAValue:
    """Matrix product of 8-bit integers minus their zero points, in 32 bits."""
    a = centred(ctx, ctx.input(0), _rows(ctx, ctx.optional_input(2)))
    b = centred(ctx, ctx.input(1), one_or_columns(ctx, ctx.optional_input(3)))
    return product(ctx, a, b, result_element=i32)


@handler("ConvInteger")
def conv_integer(ctx: NodeContext) -> SSAValue:
    """Convolution of 8-bit integers minus their zero points, in 32 bits."""
    x, w = ctx.input(0), ctx.input(1)
    return _conv_sum(ctx, (x, ctx.optional_input(2)), (w, ctx.optional_input(3)))


def _requantized(
    ctx: NodeContext, total: SSAValue, scales: tuple[SSAValue, SSAValue], out: tuple[int, int]
) -> SSAValue:
    """Requantise a 32-bit total with scale a * b; `out` has the operands of the new parameters."""
    factor = ctx.emit(graph.MulOp(*(cast(ctx, scale, f32) for scale in scales)))
    wanted = cast(ctx, scalar(ctx, ctx.input(out[0])), f32)
    factor = ctx.emit(graph.DivOp(factor, wanted))
    return ctx.emit(RequantizeOp(total, factor, scalar(ctx, ctx.input(out[1]))))


@handler("QLinearMatMul")
def qlinear_matmul(ctx: NodeContext) -> SSAValue:
    """Matrix product of quantised tensors with a quantised result."""
    a_scale = _rows(ctx, ctx.input(1))
    assert a_scale is not None
    a = centred(ctx, ctx.input(0), _rows(ctx, ctx.input(2)))
    b = centred(ctx, ctx.input(3), scalar(ctx, ctx.input(5)))
    total = product(ctx, a, b, result_element=i32)
    return _requantized(ctx, total, (a_scale, scalar(ctx, ctx.input(4))), (6, 7))


@handler("QLinearConv", "com.microsoft.QLinearConv")
def qlinear_conv(ctx: NodeContext) -> SSAValue:
    """Convolution of quantised tensors with a quantised result; the bias has 32 bits."""
    x, w = (ctx.input(0), ctx.input(2)), (ctx.input(3), ctx.input(5))
    total = _conv_sum(ctx, x, w, ctx.optional_input(8))
    scales = scalar(ctx, ctx.input(1)), along(ctx, ctx.input(4), 1, ctx.rank(total))
    return _requantized(ctx, total, scales, (6, 7))


@handler("com.microsoft.QGemm")
def qgemm(ctx: NodeContext) -> SSAValue:
    """alpha * a @ b + c of quantised matrices; the result is quantised if a scale is given."""
    a = centred(ctx, ctx.input(0), scalar(ctx, ctx.input(2)))
    columns = scalar(ctx, ctx.input(5))
    if ctx.get_bool("transB") and ctx.rank(columns):
        columns = reshaped(ctx, columns, (*ctx.shape(columns), 1))
    b = centred(ctx, ctx.input(3), columns)
    transposed = {"transpose_a": ctx.get_bool("transA"), "transpose_b": ctx.get_bool("transB")}
    total = ctx.emit(graph.MatmulOp(a, b, **transposed, result_element=i32))
    if (bias := ctx.optional_input(6)) is not None:
        total = ctx.emit(graph.AddOp(total, bias))
    scale = scalar(ctx, ctx.input(1))
    if ctx.get_float("alpha") != 1.0:
        scale = ctx.emit(graph.MulOp(scale, ctx.literal(ctx.get_float("alpha"), scale)))
    scales = (scale, scalar(ctx, ctx.input(4)))
    if ctx.optional_input(7) is not None:
        return _requantized(ctx, total, scales, (7, 8))
    return ctx.emit(graph.MulOp(cast(ctx, total, f32), ctx.emit(graph.MulOp(*scales))))


def real_product(
    ctx: NodeContext,
    a: tuple[SSAValue, SSAValue, SSAValue | None],
    b: tuple[SSAValue, SSAValue, SSAValue | None],
    bias: SSAValue | None,
) -> SSAValue:
    """Multiply quantised tensors, each with its scale and zero point, and add a float bias."""
    left, right = centred(ctx, a[0], a[2]), centred(ctx, b[0], b[2])
    total = cast(ctx, product(ctx, left, right, result_element=i32), f32)
    result = ctx.emit(graph.MulOp(total, ctx.emit(graph.MulOp(a[1], b[1]))))
    return result if bias is None else ctx.emit(graph.AddOp(result, bias))


@handler("com.microsoft.DynamicQuantizeMatMul")
def dynamic_quantize_matmul(ctx: NodeContext) -> SSAValue:
    """Product of a dynamically quantised tensor with a quantised one; the result is float."""
    scale, zero = scalar(ctx, ctx.input(2)), one_or_columns(ctx, ctx.optional_input(3))
    a = dynamically_quantized(ctx, ctx.input(0))
    return real_product(ctx, a, (ctx.input(1), scale, zero), ctx.optional_input(4))


@handler("com.microsoft.MatMulIntegerToFloat")
def matmul_integer_to_float(ctx: NodeContext) -> SSAValue:
    """Product of quantised tensors; the result is float."""
    a_scale = _rows(ctx, ctx.input(2))
    assert a_scale is not None
    a = (ctx.input(0), a_scale, _rows(ctx, ctx.optional_input(4)))
    zero = one_or_columns(ctx, ctx.optional_input(5))
    b = (ctx.input(1), scalar(ctx, ctx.input(3)), zero)
    return real_product(ctx, a, b, ctx.optional_input(6))
