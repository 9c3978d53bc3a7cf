"""Handlers of onnxruntime's quantised operators: float operators between (de)quantisations."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler, register_handler
from tcopt.frontends.onnx.handlers.pooling import pooled
from tcopt.frontends.onnx.handlers.quantization import dequantized, quantized

Apply = Callable[[NodeContext, SSAValue], SSAValue]


def _unary(op_type: str, apply: Apply) -> None:
    """Register an operator (x, x scale, x zero, y scale, y zero)."""

    def handle(ctx: NodeContext) -> SSAValue:
        x = ctx.input(0)
        ctx.check(not ctx.get_int("channels_last", 0), "channels_last is not supported")
        real = dequantized(ctx, x, ctx.input(1), ctx.optional_input(2))
        scale, zero = ctx.input(3), ctx.optional_input(4)
        return quantized(ctx, apply(ctx, real), scale, zero, ctx.element(x))

    handle.__doc__ = f"{op_type} of a quantised tensor."
    register_handler(f"com.microsoft.{op_type}", handle)


def _leaky_relu(ctx: NodeContext, x: SSAValue) -> SSAValue:
    return ctx.emit(graph.LeakyReluOp(x, alpha=ctx.get_float("alpha")))


def _global_average(ctx: NodeContext, x: SSAValue) -> SSAValue:
    axes = range(2, ctx.rank(x))
    return ctx.emit(graph.ReduceOp(x, kind="mean", axes=axes, keepdims=True))


def _mean(ctx: NodeContext, x: SSAValue) -> SSAValue:
    axes = ctx.axes(ctx.get_ints("axes") or [], ctx.rank(x)) or range(ctx.rank(x))
    keepdims = ctx.get_bool("keepdims")
    return ctx.emit(graph.ReduceOp(x, kind="mean", axes=axes, keepdims=keepdims))


def _average(ctx: NodeContext, x: SSAValue) -> SSAValue:
    counted = ctx.get_bool("count_include_pad", 0)
    return pooled(ctx, x, "average", count_include_pad=counted)


def _softmax(ctx: NodeContext, x: SSAValue) -> SSAValue:
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(x))
    if ctx.get_int("opset") < 13 and axis != ctx.rank(x) - 1:
        ctx.unsupported("QLinearSoftmax over several axes is not supported")
    return ctx.emit(graph.SoftmaxOp(x, axis=axis))


_unary("QLinearSigmoid", lambda ctx, x: ctx.emit(graph.SigmoidOp(x)))
_unary("QLinearLeakyRelu", _leaky_relu)
_unary("QLinearGlobalAveragePool", _global_average)
_unary("QLinearAveragePool", _average)
_unary("QLinearReduceMean", _mean)
_unary("QLinearSoftmax", _softmax)


def _binary(op_type: str, op: type[graph.BinaryOp]) -> None:
    """Register an operator (a, a scale, a zero, b, b scale, b zero, y scale, y zero)."""

    def handle(ctx: NodeContext) -> SSAValue:
        lhs = dequantized(ctx, ctx.input(0), ctx.input(1), ctx.optional_input(2))
        rhs = dequantized(ctx, ctx.input(3), ctx.input(4), ctx.optional_input(5))
        real, element = ctx.emit(op(lhs, rhs)), ctx.element(ctx.input(0))
        return quantized(ctx, real, ctx.input(6), ctx.optional_input(7), element)

    handle.__doc__ = f"{op_type} of two quantised tensors."
    register_handler(f"com.microsoft.{op_type}", handle)


_binary("QLinearAdd", graph.AddOp)
_binary("QLinearMul", graph.MulOp)


@handler("com.microsoft.QLinearConcat")
def qlinear_concat(ctx: NodeContext) -> SSAValue:
    """Concatenation of quantised tensors, each with its own scale and zero point."""
    scale, zero, *parts = ctx.inputs()
    ctx.check(parts and len(parts) % 3 == 0, "each part should have a scale and a zero point")
    axis = ctx.axis(ctx.get_int("axis"), ctx.rank(parts[0]))
    made = [
        quantized(ctx, dequantized(ctx, *parts[i : i + 3]), scale, zero, ctx.element(parts[i]))
        for i in range(0, len(parts), 3)
    ]
    return ctx.emit(graph.ConcatOp(made, axis=axis))


@handler("com.microsoft.QLinearWhere")
def qlinear_where(ctx: NodeContext) -> SSAValue:
    """Selection between two quantised tensors."""
    left, right = (dequantized(ctx, *(ctx.input(i + j) for j in range(3))) for i in (1, 4))
    chosen = ctx.emit(graph.SelectOp(ctx.input(0), left, right))
    return quantized(ctx, chosen, ctx.input(7), ctx.input(8), ctx.element(ctx.input(1)))
