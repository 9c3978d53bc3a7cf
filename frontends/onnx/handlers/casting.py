"""Handlers of conversions between element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import (
    AnyFloat,
    Float8E8M0FNUType,
    IntegerType,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import element_of, is_float, numpy_dtype
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.support.data.dtypes import is_narrow

_BYTE = element_of(np.dtype(np.uint8))
_MANTISSA = 23


def cast(ctx: NodeContext, value: SSAValue, element: Attribute) -> SSAValue:
    """Convert a value to another element type."""
    return value if ctx.element(value) == element else ctx.emit(graph.CastOp(value, element))


def plain(ctx: NodeContext, value: SSAValue) -> SSAValue:
    """Convert narrow types to f32 or 8-bit integers; keep other values."""
    element = ctx.element(value)
    if not is_narrow(element):
        return value
    if is_float(element):
        return cast(ctx, value, f32)
    return cast(ctx, value, byte_like(element))


def byte_like(element: Attribute) -> Attribute:
    """Return the 8-bit integer type with the signedness of another."""
    assert isinstance(element, IntegerType)
    return IntegerType(8, element.signedness)


def converted(
    ctx: NodeContext,
    x: SSAValue,
    target: Attribute,
    *,
    saturate: bool = True,
    round_mode: str = "up",
) -> SSAValue:
    """Convert a value to another element type, as specified for ONNX's Cast.

    Args:
        saturate: whether values that overflow an 8-bit float become its maximum.
        round_mode: rounding of exponent-only floats: `up`, `down` or `nearest`.
    """
    if target == ctx.element(x):
        return x
    if isinstance(target, Float8E8M0FNUType):
        return _exponents(ctx, x, saturate, round_mode)
    if saturate and is_narrow(target) and is_float(target):
        x = _real(ctx, x)
        most = float(ml_dtypes.finfo(numpy_dtype(target)).max)
        x = ctx.emit(graph.ClipOp(x, min=-most, max=most))
    return cast(ctx, x, target)


def _real(ctx: NodeContext, x: SSAValue) -> SSAValue:
    """Convert a value to a float type that represents it."""
    element = ctx.element(x)
    if isinstance(element, AnyFloat):
        return plain(ctx, x)
    wide = isinstance(element, IntegerType) and element.width.data > 16
    return cast(ctx, x, f64 if wide else f32)


def _exponents(ctx: NodeContext, x: SSAValue, saturate: bool, round_mode: str) -> SSAValue:
    """Round the magnitudes of a value to powers of two, as f8E8M0FNU."""
    ctx.check(round_mode in ("up", "down", "nearest"), f"round_mode cannot be {round_mode!r}")
    bits = ctx.emit(graph.BitcastOp(cast(ctx, plain(ctx, x), f32), i32))

    def number(value: int) -> SSAValue:
        return ctx.array(np.array(value, np.int32))

    def masked(mask: int) -> SSAValue:
        return ctx.emit(graph.AndOp(bits, number(mask)))

    def compared(value: SSAValue, predicate: str, to: int) -> SSAValue:
        return ctx.emit(graph.CompareOp(value, number(to), predicate=predicate))

    shifted = ctx.emit(graph.ShiftRightOp(bits, number(_MANTISSA)))
    exponent = ctx.emit(graph.AndOp(shifted, number(0xFF)))
    if round_mode != "down":
        half = 1 << (_MANTISSA - 1)
        if round_mode == "up":
            rises = compared(masked(2 * half - 1), "gt", 0)
        else:
            # Ties are rounded up too, except from 0.
            above = compared(masked(half - 1), "gt", 0)
            odd = ctx.emit(graph.OrOp(above, compared(exponent, "gt", 0)))
            rises = ctx.emit(graph.AndOp(compared(masked(half), "gt", 0), odd))
        last = 0xFE if saturate else 0xFF
        rises = ctx.emit(graph.AndOp(rises, compared(exponent, "lt", last)))
        exponent = ctx.emit(graph.AddOp(exponent, ctx.emit(graph.CastOp(rises, i32))))
    code = ctx.emit(graph.CastOp(exponent, _BYTE))
    return ctx.emit(graph.BitcastOp(code, element_of(np.dtype(ml_dtypes.float8_e8m0fnu))))


def _to_text(ctx: NodeContext, x: SSAValue) -> SSAValue:
    """Format numbers as decimal strings."""
    if ctx.is_text(x):
        return x
    x = plain(ctx, x)
    return ctx.host("number_to_string", [x], ctx.shape(x), type=ctx.builder.dtype_of(x).name)


def _of_text(ctx: NodeContext, x: SSAValue, target: Attribute) -> SSAValue:
    """Parse numbers from strings."""
    spelled = target
    if target == i1:
        spelled = i64
    elif is_narrow(target):
        spelled = f32 if is_float(target) else byte_like(target)
    name = numpy_dtype(spelled).name
    numbers = ctx.host("string_to_number", [x], ctx.shape(x), spelled, type=name)
    return converted(ctx, numbers, target)


@handler("Cast")
def cast_to(ctx: NodeContext) -> SSAValue:
    """Conversion to another element type."""
    x = ctx.input(0)
    if ctx.get_int("to") == TensorProto.STRING:
        return ctx.text(_to_text(ctx, x))
    target = ctx.get_element_type("to")
    return x if target is None else _by_attributes(ctx, x, target)


@handler("CastLike")
def cast_like(ctx: NodeContext) -> SSAValue:
    """Conversion to the element type of the second operand."""
    if ctx.is_text(ctx.input(1)):
        return _to_text(ctx, ctx.input(0))
    return _by_attributes(ctx, ctx.input(0), ctx.element(ctx.input(1)))


def _by_attributes(ctx: NodeContext, x: SSAValue, target: Attribute) -> SSAValue:
    """Convert according to the attributes of Cast, which older versions lack."""
    if ctx.is_text(x):
        return _of_text(ctx, x, target)
    saturate, mode = ctx.get_bool("saturate", 1), ctx.get_string("round_mode", "up")
    return converted(ctx, x, target, saturate=saturate, round_mode=mode)


@handler("BitCast")
def bit_cast(ctx: NodeContext) -> SSAValue:
    """Reinterpretation of the bits as another type."""
    x, target = ctx.input(0), ctx.get_element_type("to")
    if target is None or target == ctx.element(x):
        return x
    widths = [_width(ctx.element(x)), _width(target)]
    ctx.check(widths[0] == widths[1], f"{ctx.element(x)} and {target} differ in width")
    return ctx.emit(graph.BitcastOp(x, target))


def _width(element: Attribute) -> int:
    assert isinstance(element, IntegerType | AnyFloat)
    return 8 if element == i1 else element.bitwidth
