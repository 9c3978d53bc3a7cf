"""Handlers of training steps (ai.onnx.preview.training), in which an optimizer updates tensors.

Each node updates any number of tensors in the same way. Its operands are the rate R and the number
T of previous steps, followed by all tensors, all gradients, and each part of the optimizer's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import register_handler
from tcopt.frontends.onnx.handlers.casting import cast

_DOMAIN = "ai.onnx.preview.training"


class _Sums:
    """Arithmetic on tensors of one element type and on numbers."""

    def __init__(self, ctx: NodeContext, like: SSAValue):
        self._ctx = ctx
        self._like = like

    def _value(self, x: SSAValue | float) -> SSAValue:
        if isinstance(x, SSAValue):
            return cast(self._ctx, x, self._ctx.element(self._like))
        return self._ctx.literal(x, self._like)

    def apply(self, op: type[graph.BinaryOp], *terms: SSAValue | float) -> SSAValue:
        """Combine terms from left to right."""
        first, *rest = map(self._value, terms)
        for term in rest:
            first = self._ctx.emit(op(first, term))
        return first

    def add(self, *terms: SSAValue | float) -> SSAValue:
        return self.apply(graph.AddOp, *terms)

    def sub(self, *terms: SSAValue | float) -> SSAValue:
        return self.apply(graph.SubOp, *terms)

    def mul(self, *terms: SSAValue | float) -> SSAValue:
        return self.apply(graph.MulOp, *terms)

    def div(self, *terms: SSAValue | float) -> SSAValue:
        return self.apply(graph.DivOp, *terms)

    def sqrt(self, x: SSAValue) -> SSAValue:
        return self._ctx.emit(graph.SqrtOp(x))

    def after_the_first(self, steps: SSAValue, yes: SSAValue | float, no: SSAValue | float):
        """Select between a value for later steps and one for the first step."""
        zero = self._ctx.literal(0.0, steps)
        later = self._ctx.emit(graph.CompareOp(steps, zero, predicate="gt"))
        return self._ctx.emit(graph.SelectOp(later, self._value(yes), self._value(no)))


_Step = Callable[[NodeContext, _Sums, SSAValue, SSAValue, Sequence[SSAValue]], list[SSAValue]]
"""Computes the new tensor and optimizer state from the rate, the number of previous steps, the
tensor, its regularised gradient, and the old state.
"""


def _register(op_type: str, kept: int, step: _Step) -> None:
    def handle(ctx: NodeContext) -> list[SSAValue]:
        rate, steps, *rest = ctx.inputs()
        count, over = divmod(len(rest), 2 + kept)
        ctx.check(not over, f"{len(rest)} tensors do not divide into {2 + kept} groups")
        columns = [list(_changed(ctx, rate, steps, rest[i::count], step)) for i in range(count)]
        return [value for group in zip(*columns, strict=True) for value in group]

    handle.__doc__ = f"A step of {op_type}."
    register_handler(f"{_DOMAIN}.{op_type}", handle)


def _changed(
    ctx: NodeContext, rate: SSAValue, steps: SSAValue, values: list[SSAValue], step: _Step
) -> Iterator[SSAValue]:
    x, gradient, *kept = values
    k = _Sums(ctx, x)
    regular = k.add(k.mul(ctx.get_float("norm_coefficient"), x), gradient)
    yield from step(ctx, k, rate, steps, [x, regular, *kept])


def _adagrad(
    ctx: NodeContext, k: _Sums, rate: SSAValue, steps: SSAValue, values: Sequence[SSAValue]
) -> list[SSAValue]:
    x, gradient, squares = values
    decayed = k.div(rate, k.add(k.mul(steps, ctx.get_float("decay_factor")), 1.0))
    squares = k.add(squares, k.mul(gradient, gradient))
    scale = k.add(k.sqrt(squares), ctx.get_float("epsilon"))
    return [k.sub(x, k.div(k.mul(decayed, gradient), scale)), squares]


def _momentum(
    ctx: NodeContext, k: _Sums, rate: SSAValue, steps: SSAValue, values: Sequence[SSAValue]
) -> list[SSAValue]:
    x, gradient, velocity = values
    alpha, mode = ctx.get_float("alpha"), ctx.get_string("mode")
    ctx.check(mode in ("standard", "nesterov"), f"mode cannot be {mode!r}")
    beta = k.after_the_first(steps, ctx.get_float("beta"), 1.0)
    velocity = k.add(k.mul(alpha, velocity), k.mul(beta, gradient))
    ahead = k.add(gradient, k.mul(alpha, velocity)) if mode == "nesterov" else velocity
    return [k.sub(x, k.mul(rate, ahead)), velocity]


def _adam(
    ctx: NodeContext, k: _Sums, rate: SSAValue, steps: SSAValue, values: Sequence[SSAValue]
) -> list[SSAValue]:
    x, gradient, mean, squares = values
    alpha, beta = ctx.get_float("alpha"), ctx.get_float("beta")
    mean = k.add(k.mul(alpha, mean), k.mul(1 - alpha, gradient))
    squares = k.add(k.mul(beta, squares), k.mul(1 - beta, gradient, gradient))
    # Correct the bias of the first averages, which start at zero.
    unbiased = k.sqrt(k.sub(1.0, k.apply(graph.PowOp, beta, steps)))
    unbiased = k.div(k.mul(rate, unbiased), k.sub(1.0, k.apply(graph.PowOp, alpha, steps)))
    adjusted = k.after_the_first(steps, unbiased, rate)
    scale = k.add(k.sqrt(squares), ctx.get_float("epsilon"))
    moved = k.sub(x, k.div(k.mul(adjusted, mean), scale))
    return [k.mul(1 - ctx.get_float("norm_coefficient_post"), moved), mean, squares]


_register("Adagrad", 1, _adagrad)
_register("Momentum", 1, _momentum)
_register("Adam", 2, _adam)
