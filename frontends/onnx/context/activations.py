"""Activation functions of recurrent layers and fused operators, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext

_Formula = Callable[[NodeContext, SSAValue, float, float], SSAValue]


@dataclass(frozen=True)
class _Kind:
    """A function of a value and two parameters; a default of None marks an unused parameter."""

    formula: _Formula
    alpha: float | None = None
    beta: float | None = None


@dataclass(frozen=True)
class Activation:
    """An activation function with its parameters."""

    kind: _Kind
    alpha: float
    beta: float

    def __call__(self, ctx: NodeContext, value: SSAValue) -> SSAValue:
        """Emit the function of a value."""
        return self.kind.formula(ctx, value, self.alpha, self.beta)


def _affine(ctx: NodeContext, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    scaled = ctx.emit(graph.MulOp(x, ctx.literal(alpha, x)))
    return ctx.emit(graph.AddOp(scaled, ctx.literal(beta, x)))


def _scaled_tanh(ctx: NodeContext, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    inner = ctx.emit(graph.TanhOp(ctx.emit(graph.MulOp(x, ctx.literal(beta, x)))))
    return ctx.emit(graph.MulOp(inner, ctx.literal(alpha, x)))


def _thresholded(ctx: NodeContext, x: SSAValue, alpha: float, _: float) -> SSAValue:
    above = ctx.emit(graph.CompareOp(x, ctx.literal(alpha, x), predicate="gt"))
    return ctx.emit(graph.SelectOp(above, x, ctx.literal(0.0, x)))


def _softsign(ctx: NodeContext, x: SSAValue, _alpha: float, _beta: float) -> SSAValue:
    size = ctx.emit(graph.AddOp(ctx.emit(graph.AbsOp(x)), ctx.literal(1.0, x)))
    return ctx.emit(graph.DivOp(x, size))


_KINDS = {
    "affine": _Kind(_affine, 1.0, 0.0),
    "elu": _Kind(lambda c, x, a, b: c.emit(graph.EluOp(x, alpha=a)), 1.0),
    "hardsigmoid": _Kind(
        lambda c, x, a, b: c.emit(graph.HardSigmoidOp(x, alpha=a, beta=b)), 0.2, 0.5
    ),
    "leakyrelu": _Kind(lambda c, x, a, b: c.emit(graph.LeakyReluOp(x, alpha=a)), 0.01),
    "relu": _Kind(lambda c, x, a, b: c.emit(graph.ReluOp(x))),
    "scaledtanh": _Kind(_scaled_tanh, 1.0, 1.0),
    "sigmoid": _Kind(lambda c, x, a, b: c.emit(graph.SigmoidOp(x))),
    "softplus": _Kind(lambda c, x, a, b: c.emit(graph.SoftplusOp(x))),
    "softsign": _Kind(_softsign),
    "tanh": _Kind(lambda c, x, a, b: c.emit(graph.TanhOp(x))),
    "thresholdedrelu": _Kind(_thresholded, 1.0),
}


def _kind(ctx: NodeContext, name: str) -> _Kind:
    kind = _KINDS.get(name.lower())
    if kind is None:
        ctx.unsupported(f"activation {name} is not supported")
    return kind


def activation(ctx: NodeContext, name: str, alpha: float | None, beta: float | None) -> Activation:
    """Return an activation by name, with parameters that override its defaults."""
    kind = _kind(ctx, name)
    own = (kind.alpha or 0.0, kind.beta or 0.0)
    return Activation(kind, own[0] if alpha is None else alpha, own[1] if beta is None else beta)


def activations(
    ctx: NodeContext, directions: int, defaults: Sequence[str]
) -> list[list[Activation]]:
    """Return the activations of each direction, from the node's attributes.

    `activation_alpha` and `activation_beta` list the parameters of those functions that have them,
    in order.
    """
    given = ctx.get_strings("activations") if ctx.has("activations") else None
    names = given or list(defaults) * directions
    if len(names) == len(defaults):
        names = names * directions
    count = len(defaults) * directions
    ctx.check(len(names) == count, f"expected {count} activations, got {len(names)}")
    alphas = list(ctx.get_floats("activation_alpha") or [])
    betas = list(ctx.get_floats("activation_beta") or [])
    found: list[Activation] = []
    for name in names:
        kind = _kind(ctx, name)
        found.append(Activation(kind, _next(kind.alpha, alphas), _next(kind.beta, betas)))
    size = len(defaults)
    return [found[start : start + size] for start in range(0, count, size)]


def _next(default: float | None, given: list[float]) -> float:
    if default is None:
        return 0.0
    return given.pop(0) if given else default
