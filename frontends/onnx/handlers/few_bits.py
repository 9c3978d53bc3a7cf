"""Handlers of QONNX's quantisers, which round to integers of few bits times a scale.

Source: https://github.com/fastmachinelearning/qonnx, docs/qonnx-custom-ops.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import f32, i8
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import element_of
from tcopt.dialects.graph.elementwise.quantize import DequantizeOp, QuantizeOp
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.frontends.onnx.handlers.casting import cast
from tcopt.frontends.onnx.handlers.quantization import scalar
from tcopt.frontends.onnx.nodes.qonnx import DOMAINS

_UI8 = element_of(np.dtype(np.uint8))
_MOST = 8
"""Maximum number of bits of values that are stored as integers."""

_ROUNDINGS: dict[str, Callable[[SSAValue], graph.GraphOp]] = {
    "ROUND": graph.RoundOp,
    "HALF_EVEN": graph.RoundOp,
    "CEIL": graph.CeilOp,
    "FLOOR": graph.FloorOp,
}


def _names(op_type: str) -> list[str]:
    return [f"{domain}.{op_type}" for domain in DOMAINS]


@handler(*_names("BipolarQuant"))
def bipolar_quant(ctx: NodeContext) -> SSAValue:
    """The scale for non-negative x, the negated scale otherwise."""
    x, scale = ctx.input(0), scalar(ctx, ctx.input(1))
    return _dequantized(ctx, _signs(ctx, x), scale, np.zeros((), np.int8))


@handler(*_names("Quant"), *_names("IntQuant"))
def quant(ctx: NodeContext) -> SSAValue:
    """Quantisation to a number of bits with scale and zero point, followed by dequantisation."""
    x, scale = cast(ctx, ctx.input(0), f32), scalar(ctx, cast(ctx, ctx.input(1), f32))
    zero = ctx.constant(2, "zero point")
    width = ctx.constant(3, "number of bits")
    signed, narrow = ctx.get_bool("signed", 1), ctx.get_bool("narrow", 0)
    ctx.check(
        width.size == 1 and float(width.flat[0]) in range(1, 33),
        "bits should be from 1 to 32",
    )
    ctx.check(bool(np.all(zero == np.rint(zero))), "a zero point is not an integer")
    bits = int(width.flat[0])
    zeros = zero.reshape(()) if zero.size == 1 else zero
    if signed and bits == 1:
        moved = _plus(ctx, ctx.emit(graph.DivOp(x, scale)), zeros)
        return _scaled(ctx, _signs(ctx, moved), scale, zeros, i8)
    low = (-(1 << (bits - 1)) + narrow) if signed else 0
    high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1 - narrow
    mode = ctx.get_string("rounding_mode", "ROUND").upper()
    element = i8 if signed else _UI8
    is_even = mode in ("ROUND", "HALF_EVEN") and not (zeros % 2).any()
    if bits <= _MOST and is_even and low <= zeros.min() and zeros.max() <= high:
        # With an even zero point, ties are rounded to the same value as without one.
        stored = zeros.astype(np.int8 if signed else np.uint8)
        codes = ctx.emit(QuantizeOp(x, scale, ctx.array(stored)))
        codes = _within(ctx, codes, low, high)
        return _dequantized(ctx, codes, scale, stored)
    if mode not in _ROUNDINGS:
        ctx.unsupported(f"rounding_mode {mode} is not supported")
    value = _plus(ctx, ctx.emit(graph.DivOp(x, scale)), zeros)
    value = ctx.emit(graph.ClipOp(value, min=float(low), max=float(high)))
    value = ctx.emit(_ROUNDINGS[mode](value))
    if bits > _MOST:
        real = _plus(ctx, value, -zeros)
        return ctx.emit(graph.MulOp(real, scale))
    codes = _within(ctx, cast(ctx, value, element), low, high)
    return _scaled(ctx, codes, scale, zeros, element)


def _signs(ctx: NodeContext, x: SSAValue) -> SSAValue:
    """Return 1 for non-negative x, and -1 otherwise, as bytes."""
    above = ctx.emit(graph.CompareOp(x, ctx.literal(0.0, x), predicate="ge"))
    one, less = (ctx.array(np.array(number, np.int8)) for number in (1, -1))
    return ctx.emit(graph.SelectOp(above, one, less))


def _plus(ctx: NodeContext, x: SSAValue, number: np.ndarray) -> SSAValue:
    if not number.any():
        return x
    return ctx.emit(graph.AddOp(x, ctx.array(number.astype(np.float32))))


def _within(ctx: NodeContext, codes: SSAValue, low: int, high: int) -> SSAValue:
    """Clip codes to limits, from which their number of bits can be inferred."""
    limits = (-128, 127) if ctx.element(codes) == i8 else (0, 255)
    if low > limits[0]:
        codes = ctx.emit(graph.MaxOp(codes, ctx.literal(float(low), codes)))
    if high < limits[1]:
        codes = ctx.emit(graph.MinOp(codes, ctx.literal(float(high), codes)))
    return codes


def _scaled(
    ctx: NodeContext, codes: SSAValue, scale: SSAValue, zeros: np.ndarray, element: Attribute
) -> SSAValue:
    """Dequantise codes; their zero point may be out of range of their type."""
    dtype = np.int8 if element == i8 else np.uint8
    limits = np.iinfo(dtype)
    if limits.min <= zeros.min() and zeros.max() <= limits.max:
        return _dequantized(ctx, codes, scale, zeros.astype(dtype))
    return ctx.emit(graph.MulOp(_plus(ctx, cast(ctx, codes, f32), -zeros), scale))


def _dequantized(ctx: NodeContext, codes: SSAValue, scale: SSAValue, zeros: np.ndarray) -> SSAValue:
    return ctx.emit(DequantizeOp(codes, cast(ctx, scale, f32), ctx.array(zeros)))
