"""Handlers of unary elementwise operators."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import is_float
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import Handler, handler, register_handler

_PLAIN = {
    "Abs": graph.AbsOp,
    "Acos": graph.AcosOp,
    "Acosh": graph.AcoshOp,
    "Asin": graph.AsinOp,
    "Asinh": graph.AsinhOp,
    "Atan": graph.AtanOp,
    "Atanh": graph.AtanhOp,
    "Ceil": graph.CeilOp,
    "Cos": graph.CosOp,
    "Cosh": graph.CoshOp,
    "Erf": graph.ErfOp,
    "Exp": graph.ExpOp,
    "Floor": graph.FloorOp,
    "HardSwish": graph.HardSwishOp,
    "IsNaN": graph.IsNanOp,
    "Log": graph.LogOp,
    "Mish": graph.MishOp,
    "Neg": graph.NegOp,
    "Not": graph.NotOp,
    "Reciprocal": graph.ReciprocalOp,
    "Relu": graph.ReluOp,
    "Round": graph.RoundOp,
    "Sigmoid": graph.SigmoidOp,
    "Sign": graph.SignOp,
    "Sin": graph.SinOp,
    "Sinh": graph.SinhOp,
    "Softplus": graph.SoftplusOp,
    "Sqrt": graph.SqrtOp,
    "Tan": graph.TanOp,
    "Tanh": graph.TanhOp,
}


def _plain(op: type[graph.UnaryOp]) -> Handler:
    return lambda ctx: ctx.emit(op(ctx.input(0)))


for _op_type, _op in _PLAIN.items():
    register_handler(_op_type, _plain(_op))


@handler("Elu")
def elu(ctx: NodeContext) -> SSAValue:
    """x, or alpha * (exp(x) - 1) for negative x."""
    return ctx.emit(graph.EluOp(ctx.input(0), alpha=ctx.get_float("alpha")))


@handler("Selu")
def selu(ctx: NodeContext) -> SSAValue:
    """gamma * elu(x, alpha)."""
    alpha, gamma = ctx.get_float("alpha"), ctx.get_float("gamma")
    return ctx.emit(graph.SeluOp(ctx.input(0), alpha=alpha, gamma=gamma))


@handler("LeakyRelu")
def leaky_relu(ctx: NodeContext) -> SSAValue:
    """x, or alpha * x for negative x."""
    return ctx.emit(graph.LeakyReluOp(ctx.input(0), alpha=ctx.get_float("alpha")))


@handler("HardSigmoid")
def hard_sigmoid(ctx: NodeContext) -> SSAValue:
    """alpha * x + beta, clipped to [0, 1]."""
    alpha, beta = ctx.get_float("alpha"), ctx.get_float("beta")
    return ctx.emit(graph.HardSigmoidOp(ctx.input(0), alpha=alpha, beta=beta))


@handler("Gelu")
def gelu(ctx: NodeContext) -> SSAValue:
    """GELU, exact or approximated by tanh."""
    approximate = ctx.get_string("approximate")
    ctx.check(approximate in ("none", "tanh"), f"approximate cannot be {approximate!r}")
    return ctx.emit(graph.GeluOp(ctx.input(0), approximate=approximate))


@handler("Swish", "com.microsoft.QuickGelu")
def swish(ctx: NodeContext) -> SSAValue:
    """x * sigmoid(alpha * x)."""
    x, alpha = ctx.input(0), ctx.get_float("alpha")
    if alpha == 1.0:
        return ctx.emit(graph.SiluOp(x))
    scaled = ctx.emit(graph.MulOp(x, ctx.literal(alpha, x)))
    return ctx.emit(graph.MulOp(x, ctx.emit(graph.SigmoidOp(scaled))))


@handler("IsInf")
def is_inf(ctx: NodeContext) -> SSAValue:
    """Whether elements are infinite, of either or of one sign."""
    x = ctx.input(0)
    positive, negative = ctx.get_bool("detect_positive"), ctx.get_bool("detect_negative")
    if positive and negative:
        return ctx.emit(graph.IsInfOp(x))
    if not positive and not negative:
        return ctx.splat(ctx.shape(x), np.bool_(False))
    infinity = ctx.literal(np.inf if positive else -np.inf, x)
    return ctx.emit(graph.CompareOp(x, infinity, predicate="eq"))


@handler("BitwiseNot")
def bitwise_not(ctx: NodeContext) -> SSAValue:
    """Bitwise complement."""
    x = ctx.input(0)
    ones = np.array(~np.zeros((), ctx.builder.dtype_of(x)))
    return ctx.emit(graph.XorOp(x, ctx.array(ones)))


@handler("Clip", until=11)
def clip_by_attributes(ctx: NodeContext) -> SSAValue:
    """Clip to optional bounds given as attributes."""
    low = ctx.get_float("min") if ctx.has("min") else None
    high = ctx.get_float("max") if ctx.has("max") else None
    return _clip(ctx, ctx.input(0), low, high)


@handler("Clip", since=11)
def clip_by_inputs(ctx: NodeContext) -> SSAValue:
    """Clip to optional bounds given as scalar operands."""
    x, low, high = ctx.input(0), ctx.optional_input(1), ctx.optional_input(2)
    for bound in filter(None, (low, high)):
        ctx.check(ctx.rank(bound) <= 1, "a bound should be a scalar")
    known = [ctx.known(bound) for bound in (low, high)]
    constant = all(v is not None for b, v in zip((low, high), known, strict=True) if b is not None)
    if constant and is_float(ctx.element(x)):
        bounds = [None if v is None else float(v.reshape(-1)[0]) for v in known]
        return _clip(ctx, x, *bounds)
    # Integers may not fit a float attribute, and bounds known only at run time are operands.
    if low is not None:
        x = ctx.emit(graph.MaxOp(x, low))
    return x if high is None else ctx.emit(graph.MinOp(x, high))


def _clip(ctx: NodeContext, x: SSAValue, low: float | None, high: float | None) -> SSAValue:
    if low is None and high is None:
        return x
    return ctx.emit(graph.ClipOp(x, min=low, max=high))


@handler("Identity")
def identity(ctx: NodeContext) -> SSAValue:
    """The operand itself."""
    return ctx.input(0)
