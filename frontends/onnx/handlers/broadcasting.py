"""Handlers of operators with two or more operands that broadcast."""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import is_float
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import Handler, handler, register_handler


def _operands(ctx: NodeContext) -> tuple[SSAValue, SSAValue]:
    """Return both operands; the second is reshaped by `broadcast` and `axis` of opset 6."""
    lhs, rhs = ctx.input(0), ctx.input(1)
    if ctx.opset >= 7:
        return lhs, rhs
    own, other = ctx.shape(lhs), ctx.shape(rhs)
    if not ctx.get_bool("broadcast", 0):
        ctx.check(own == other, f"shapes {list(own)} and {list(other)} differ, broadcast is off")
        return lhs, rhs
    axis = ctx.get_int("axis") if ctx.has("axis") else len(own) - len(other)
    axis += len(own) if axis < 0 else 0
    trailing = len(own) - axis - len(other)
    ctx.check(trailing >= 0 and axis >= 0, f"axis {axis} leaves no room for {list(other)}")
    if trailing:
        rhs = ctx.emit(graph.ReshapeOp(rhs, (*other, *[1] * trailing)))
    return lhs, rhs


def _binary(op: type[graph.BinaryOp]) -> Handler:
    return lambda ctx: ctx.emit(op(*_operands(ctx)))


def _compare(predicate: str) -> Handler:
    return lambda ctx: ctx.emit(graph.CompareOp(*_operands(ctx), predicate=predicate))


for _op_type, _op in {
    "Add": graph.AddOp,
    "And": graph.AndOp,
    "BitwiseAnd": graph.AndOp,
    "BitwiseOr": graph.OrOp,
    "BitwiseXor": graph.XorOp,
    "Div": graph.DivOp,
    "Mul": graph.MulOp,
    "Or": graph.OrOp,
    "Sub": graph.SubOp,
    "Xor": graph.XorOp,
}.items():
    register_handler(_op_type, _binary(_op))

for _op_type, _predicate in {
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
}.items():
    register_handler(_op_type, _compare(_predicate))


def _variadic(op: type[graph.BinaryOp]) -> Handler:
    def run(ctx: NodeContext) -> SSAValue:
        first, *rest = ctx.inputs()
        if ctx.opset < 8:
            shapes = {ctx.shape(value) for value in (first, *rest)}
            ctx.check(len(shapes) == 1, f"shapes {sorted(shapes)} differ")
        for value in rest:
            first = ctx.emit(op(first, value))
        return first

    return run


for _op_type, _op in {"Sum": graph.AddOp, "Max": graph.MaxOp, "Min": graph.MinOp}.items():
    register_handler(_op_type, _variadic(_op))


@handler("Mean")
def mean(ctx: NodeContext) -> SSAValue:
    """Elementwise mean of the operands."""
    total = _variadic(graph.AddOp)(ctx)
    assert isinstance(total, SSAValue)
    return ctx.emit(graph.DivOp(total, ctx.literal(float(len(ctx.operands)), total)))


@handler("Pow")
def power(ctx: NodeContext) -> SSAValue:
    """Power; the exponent may have another type than the base and the result."""
    base, exponent = _operands(ctx)
    own, other = ctx.element(base), ctx.element(exponent)
    if own == other:
        return ctx.emit(graph.PowOp(base, exponent))
    if is_float(other) and not is_float(own):
        wide = ctx.emit(graph.PowOp(ctx.emit(graph.CastOp(base, other)), exponent))
        return ctx.emit(graph.CastOp(wide, own))
    return ctx.emit(graph.PowOp(base, ctx.emit(graph.CastOp(exponent, own))))


@handler("Mod")
def modulo(ctx: NodeContext) -> SSAValue:
    """Remainder with the sign of the divisor, or with fmod that of the dividend."""
    lhs, rhs = ctx.input(0), ctx.input(1)
    return ctx.emit(graph.ModOp(lhs, rhs, fmod=ctx.get_bool("fmod")))


@handler("PRelu")
def parametric_relu(ctx: NodeContext) -> SSAValue:
    """x, or slope * x for negative x."""
    x, slope = ctx.input(0), ctx.input(1)
    shape, own = ctx.shape(x), ctx.shape(slope)
    if ctx.opset < 7 and len(own) == 1 and len(shape) > 2 and own != (1,):
        slope = ctx.emit(graph.ReshapeOp(slope, (*own, *[1] * (len(shape) - 2))))
    result = ctx.emit(graph.PreluOp(x, slope))
    ctx.check(ctx.shape(result) == shape, f"slope {list(own)} does not broadcast to {list(shape)}")
    return result


@handler("Where")
def where(ctx: NodeContext) -> SSAValue:
    """One operand where the condition holds, the other elsewhere."""
    condition, lhs, rhs = ctx.inputs()
    ctx.check(ctx.element(condition) == i1, "the condition should be bool")
    return ctx.emit(graph.SelectOp(condition, lhs, rhs))


@handler("BitShift")
def bit_shift(ctx: NodeContext) -> SSAValue:
    """Shift of integers; right shifts of negative numbers round down."""
    x, places = ctx.input(0), ctx.input(1)
    direction = ctx.get_string("direction")
    ctx.check(direction in ("LEFT", "RIGHT"), f"direction cannot be {direction!r}")
    op = graph.ShiftLeftOp if direction == "LEFT" else graph.ShiftRightOp
    return ctx.emit(op(x, places))
