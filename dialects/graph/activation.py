"""Activation functions, with the formulas and defaults of ONNX."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from tcopt.dialects.graph.attributes import (
    Float,
    GeluApproximation,
    GeluApproximationAttr,
    real,
)
from tcopt.dialects.graph.elementwise import Domain, UnaryOp
from tcopt.dialects.graph.interfaces import Clamp, GraphOp
from tcopt.dialects.graph.numerics import erf, sigmoid, softplus
from tcopt.dialects.graph.types import Array
from tcopt.dialects.te import api as te

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_TANH_SOFTPLUS_IS_ONE = 20.0


@irdl_op_definition
class ReluOp(UnaryOp):
    """max(x, 0)."""

    name = "graph.relu"
    EXACT: ClassVar[bool] = True

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if it is a relu already."""
        return self.x if isinstance(self.x.owner, ReluOp) else None

    def clamped(self) -> Clamp | None:
        """Return the operand, clamped to be non-negative."""
        return Clamp(self.x, 0.0, math.inf)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.maximum(x, 0)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.maximum(x, te.const(0, x.dtype))


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """1 / (1 + exp(-x))."""

    name = "graph.sigmoid"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return sigmoid(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te_sigmoid(x)


@irdl_op_definition
class SoftplusOp(UnaryOp):
    """log(1 + exp(x)), computed as max(x, 0) + log(1 + exp(-|x|))."""

    name = "graph.softplus"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return softplus(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te_softplus(x)


@irdl_op_definition
class SiluOp(UnaryOp):
    """x * sigmoid(x), also called swish."""

    name = "graph.silu"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return x * sigmoid(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return x * te_sigmoid(x)


@irdl_op_definition
class MishOp(UnaryOp):
    """x * tanh(softplus(x))."""

    name = "graph.mish"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return x * np.tanh(softplus(x))

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return x * te_tanh_softplus(x)


@irdl_op_definition
class TanhSoftplusOp(UnaryOp):
    """tanh(softplus(x)), a factor of Mish, computed with a single exponential."""

    name = "graph.tanh_softplus"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.tanh(softplus(x))

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te_tanh_softplus(x)


@irdl_op_definition
class HardSwishOp(UnaryOp):
    """x * clip(x / 6 + 1 / 2, 0, 1)."""

    name = "graph.hard_swish"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return x * np.clip(x * (1 / 6) + 0.5, 0, 1)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return x * _te_clip01(x * te.const(1 / 6, x.dtype) + te.const(0.5, x.dtype))


@irdl_op_definition
class GeluOp(UnaryOp):
    """x times the standard normal CDF of x, exact or with the tanh approximation."""

    name = "graph.gelu"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    approximate = prop_def(
        GeluApproximationAttr, default_value=GeluApproximationAttr(GeluApproximation.NONE)
    )

    def __init__(self, x: SSAValue | Operation, *, approximate: str = "none"):
        kind = GeluApproximationAttr(GeluApproximation(approximate))
        GraphOp.__init__(self, [x], {"approximate": kind})

    @property
    def uses_tanh(self) -> bool:
        """Whether the tanh approximation is requested."""
        return self.approximate.data is GeluApproximation.TANH

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        if self.uses_tanh:
            return 0.5 * x * (1 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))
        return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""

        def number(value: float) -> te.Expr:
            return te.const(value, x.dtype)

        if self.uses_tanh:
            inner = number(_SQRT_2_OVER_PI) * (x + number(0.044715) * x * x * x)
            return number(0.5) * x * (number(1) + te.tanh(inner))
        return number(0.5) * x * (number(1) + te.erf(x * number(math.sqrt(0.5))))


@irdl_op_definition
class HardSigmoidOp(UnaryOp):
    """clip(alpha * x + beta, 0, 1)."""

    name = "graph.hard_sigmoid"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    alpha = prop_def(Float, default_value=real(0.2))
    beta = prop_def(Float, default_value=real(0.5))

    def __init__(self, x: SSAValue | Operation, *, alpha: float = 0.2, beta: float = 0.5):
        GraphOp.__init__(self, [x], {"alpha": real(alpha), "beta": real(beta)})

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.clip(self.alpha.value.data * x + self.beta.value.data, 0, 1)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        alpha = te.const(self.alpha.value.data, x.dtype)
        return _te_clip01(alpha * x + te.const(self.beta.value.data, x.dtype))


@irdl_op_definition
class LeakyReluOp(UnaryOp):
    """x where x >= 0, alpha * x elsewhere."""

    name = "graph.leaky_relu"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    alpha = prop_def(Float, default_value=real(0.01))

    def __init__(self, x: SSAValue | Operation, *, alpha: float = 0.01):
        GraphOp.__init__(self, [x], {"alpha": real(alpha)})

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.where(x >= 0, x, x * self.alpha.value.data)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        scaled = x * te.const(self.alpha.value.data, x.dtype)
        return te.select(x >= te.const(0, x.dtype), x, scaled)


@irdl_op_definition
class EluOp(UnaryOp):
    """x where x >= 0, alpha * (exp(x) - 1) elsewhere."""

    name = "graph.elu"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    alpha = prop_def(Float, default_value=real(1.0))

    def __init__(self, x: SSAValue | Operation, *, alpha: float = 1.0):
        GraphOp.__init__(self, [x], {"alpha": real(alpha)})

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.where(x >= 0, x, self.alpha.value.data * (np.exp(np.minimum(x, 0)) - 1))

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return _te_elu(x, self.alpha.value.data)


@irdl_op_definition
class SeluOp(UnaryOp):
    """gamma * elu(x, alpha), with the constants of Klambauer et al."""

    name = "graph.selu"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    alpha = prop_def(Float, default_value=real(1.67326319217681884765625))
    gamma = prop_def(Float, default_value=real(1.05070102214813232421875))

    def __init__(
        self, x: SSAValue | Operation, *, alpha: float | None = None, gamma: float | None = None
    ):
        GraphOp.__init__(
            self,
            [x],
            {
                "alpha": None if alpha is None else real(alpha),
                "gamma": None if gamma is None else real(gamma),
            },
        )

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        alpha, gamma = self.alpha.value.data, self.gamma.value.data
        return gamma * np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1))

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.const(self.gamma.value.data, x.dtype) * _te_elu(x, self.alpha.value.data)


@irdl_op_definition
class ClipOp(UnaryOp):
    """min(max(x, min), max); a missing bound does not apply."""

    name = "graph.clip"
    EXACT: ClassVar[bool] = True

    min = opt_prop_def(Float)
    max = opt_prop_def(Float)

    def __init__(
        self, x: SSAValue | Operation, *, min: float | None = None, max: float | None = None
    ):
        GraphOp.__init__(
            self,
            [x],
            {
                "min": None if min is None else real(min),
                "max": None if max is None else real(max),
            },
        )

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if there are no bounds."""
        return self.x if self.min is None and self.max is None else None

    def clamped(self) -> Clamp | None:
        """Return the operand, clamped to the bounds."""
        low = -math.inf if self.min is None else self.min.value.data
        return Clamp(self.x, low, math.inf if self.max is None else self.max.value.data)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        if self.min is not None:
            x = np.maximum(x, x.dtype.type(self.min.value.data))
        if self.max is not None:
            x = np.minimum(x, x.dtype.type(self.max.value.data))
        return x

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        dtype = x.dtype
        if self.min is not None:
            x = te.maximum(x, te.const(self.min.value.data, dtype))
        if self.max is not None:
            x = te.minimum(x, te.const(self.max.value.data, dtype))
        return x


def te_sigmoid(x: te.Expr) -> te.Expr:
    """Return 1 / (1 + exp(-x))."""
    one = te.const(1.0, x.dtype)
    return one / (one + te.exp(-x))


def te_softplus(x: te.Expr) -> te.Expr:
    """Return log(1 + exp(x)) without overflow, with the accuracy of exp where the result is
    small."""
    zero, one = te.const(0.0, x.dtype), te.const(1.0, x.dtype)
    power = te.exp(zero - te.abs(x))
    total = one + power
    # Add the rounding error of the sum back.
    lost = (power - (total - one)) / total
    return te.maximum(x, zero) + (te.log(total) + lost)


def te_tanh_softplus(x: te.Expr) -> te.Expr:
    """Return tanh(log(1 + e)) for e = exp(x), which is n / (n + 2) for n = e * (e + 2).

    There is no cancellation, so results near zero are accurate. For x >= 20 the result is 1, in f64
    too.
    """
    two = te.const(2.0, x.dtype)
    power = te.exp(te.minimum(x, te.const(_TANH_SOFTPLUS_IS_ONE, x.dtype)))
    n = power * (power + two)
    return n / (n + two)


def _te_clip01(x: te.Expr) -> te.Expr:
    return te.minimum(te.maximum(x, te.const(0.0, x.dtype)), te.const(1.0, x.dtype))


def _te_elu(x: te.Expr, alpha: float) -> te.Expr:
    zero = te.const(0.0, x.dtype)
    tail = te.const(alpha, x.dtype) * (te.exp(te.minimum(x, zero)) - te.const(1.0, x.dtype))
    return te.select(x >= zero, x, tail)
