"""Activation functions with attributes or rules of their own; formulas and defaults are ONNX's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from tcopt.dialects.graph.core.attributes import (
    Float,
    GeluApproximation,
    GeluApproximationAttr,
    real,
)
from tcopt.dialects.graph.core.interfaces import Clamp, GraphOp
from tcopt.dialects.graph.core.types import Array
from tcopt.dialects.graph.elementwise.base import Domain, Law, UnaryOp
from tcopt.dialects.graph.elementwise.functions import SoftplusOp, TanhSoftplusOp
from tcopt.dialects.graph.elementwise.numerics import clip01, constant_like, elu, erf

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


@irdl_op_definition
class ReluOp(UnaryOp):
    """max(x, 0)."""

    name = "graph.relu"
    EXACT: ClassVar[bool] = True
    LAW: ClassVar[Law | None] = Law.IDEMPOTENT

    def clamped(self) -> Clamp | None:
        """Return the operand, clamped to be non-negative."""
        return Clamp(self.x, 0.0, math.inf)

    def compute(self, x: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return np.maximum(x, 0)


@irdl_op_definition
class TanhOp(UnaryOp):
    """The hyperbolic tangent."""

    name = "graph.tanh"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return np.tanh(x)

    def decompose(self) -> Sequence[Operation] | None:
        """Fuse with a softplus operand: one exponential instead of two and a logarithm."""
        owner = self.x.owner
        return [TanhSoftplusOp(owner.x)] if isinstance(owner, SoftplusOp) else None


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
        """Return the result for arrays or te expressions."""
        if self.uses_tanh:
            return 0.5 * x * (1 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))
        return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


@irdl_op_definition
class HardSigmoidOp(UnaryOp):
    """clip(alpha * x + beta, 0, 1)."""

    name = "graph.hard_sigmoid"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    alpha = prop_def(Float, default_value=real(0.2))
    beta = prop_def(Float, default_value=real(0.5))

    def __init__(self, x: SSAValue | Operation, *, alpha: float = 0.2, beta: float = 0.5):
        GraphOp.__init__(self, [x], _reals(alpha=alpha, beta=beta))

    def compute(self, x: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return clip01(self.alpha.value.data * x + self.beta.value.data)


@irdl_op_definition
class LeakyReluOp(UnaryOp):
    """x where x >= 0, alpha * x elsewhere."""

    name = "graph.leaky_relu"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    alpha = prop_def(Float, default_value=real(0.01))

    def __init__(self, x: SSAValue | Operation, *, alpha: float = 0.01):
        GraphOp.__init__(self, [x], _reals(alpha=alpha))

    def compute(self, x: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return np.where(x >= 0, x, x * self.alpha.value.data)


@irdl_op_definition
class EluOp(UnaryOp):
    """x where x >= 0, alpha * (exp(x) - 1) elsewhere."""

    name = "graph.elu"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    alpha = prop_def(Float, default_value=real(1.0))

    def __init__(self, x: SSAValue | Operation, *, alpha: float = 1.0):
        GraphOp.__init__(self, [x], _reals(alpha=alpha))

    def compute(self, x: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return elu(x, self.alpha.value.data)


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
        GraphOp.__init__(self, [x], _reals(alpha=alpha, gamma=gamma))

    def compute(self, x: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return self.gamma.value.data * elu(x, self.alpha.value.data)


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
        GraphOp.__init__(self, [x], _reals(min=min, max=max))

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if the op has no bounds."""
        return self.x if self.min is None and self.max is None else None

    def clamped(self) -> Clamp | None:
        """Return the operand, clamped to the bounds."""
        low = -math.inf if self.min is None else self.min.value.data
        return Clamp(self.x, low, math.inf if self.max is None else self.max.value.data)

    def compute(self, x: Array) -> Array:
        """Return the result for arrays or te expressions."""
        if self.min is not None:
            x = np.maximum(x, constant_like(x, self.min.value.data))
        if self.max is not None:
            x = np.minimum(x, constant_like(x, self.max.value.data))
        return x


def _reals(**values: float | None) -> dict[str, Float | None]:
    """Return attributes for numbers, None for those without a value."""
    return {name: None if value is None else real(value) for name, value in values.items()}
