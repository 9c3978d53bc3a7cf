"""Unary arithmetic and mathematical functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition

from tcopt.dialects.graph.activation import SoftplusOp, TanhSoftplusOp
from tcopt.dialects.graph.elementwise import Domain, UnaryOp
from tcopt.dialects.graph.numerics import erf
from tcopt.dialects.graph.types import Array
from tcopt.dialects.te import api as te


@irdl_op_definition
class ExpOp(UnaryOp):
    """e to the power x."""

    name = "graph.exp"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.exp(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.exp(x)


@irdl_op_definition
class LogOp(UnaryOp):
    """The natural logarithm."""

    name = "graph.log"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.log(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.log(x)


@irdl_op_definition
class SqrtOp(UnaryOp):
    """The square root."""

    name = "graph.sqrt"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.sqrt(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.sqrt(x)


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """One over the square root."""

    name = "graph.rsqrt"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return 1 / np.sqrt(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.rsqrt(x)


@irdl_op_definition
class ReciprocalOp(UnaryOp):
    """One over x."""

    name = "graph.reciprocal"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return 1 / x

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.const(1.0, x.dtype) / x


@irdl_op_definition
class ErfOp(UnaryOp):
    """The error function."""

    name = "graph.erf"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return erf(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.erf(x)


@irdl_op_definition
class AbsOp(UnaryOp):
    """The absolute value."""

    name = "graph.abs"
    EXACT: ClassVar[bool] = True

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if it is an absolute value already."""
        return self.x if isinstance(self.x.owner, AbsOp) else None

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.abs(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.abs(x)


@irdl_op_definition
class NegOp(UnaryOp):
    """The negation of x."""

    name = "graph.neg"
    EXACT: ClassVar[bool] = True

    def unchanged(self) -> SSAValue | None:
        """Return the operand's operand, if the operand is a negation too."""
        return self.x.owner.x if isinstance(self.x.owner, NegOp) else None

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return -x

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return -x


@irdl_op_definition
class FloorOp(UnaryOp):
    """Round down to an integer."""

    name = "graph.floor"
    EXACT: ClassVar[bool] = True
    STEPS: ClassVar[bool] = True
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if it is a floor already."""
        return self.x if isinstance(self.x.owner, FloorOp) else None

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.floor(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.floor(x)


@irdl_op_definition
class CeilOp(UnaryOp):
    """Round up to an integer."""

    name = "graph.ceil"
    EXACT: ClassVar[bool] = True
    STEPS: ClassVar[bool] = True
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if it is a ceil already."""
        return self.x if isinstance(self.x.owner, CeilOp) else None

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.ceil(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.ceil(x)


@irdl_op_definition
class RoundOp(UnaryOp):
    """Round to the nearest integer, ties to even."""

    name = "graph.round"
    EXACT: ClassVar[bool] = True
    STEPS: ClassVar[bool] = True
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if it is rounded already."""
        return self.x if isinstance(self.x.owner, RoundOp) else None

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.round(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.round(x)


@irdl_op_definition
class SignOp(UnaryOp):
    """Sign: -1, 0 or 1; nan stays nan."""

    name = "graph.sign"
    EXACT: ClassVar[bool] = True
    STEPS: ClassVar[bool] = True

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.sign(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        zero = te.const(0, x.dtype)
        one = te.const(1, x.dtype)
        # The absolute value of the remaining cases: 0.0 for either zero, and nan.
        return te.select(x > zero, one, te.select(x < zero, zero - one, te.abs(x)))


@irdl_op_definition
class SinOp(UnaryOp):
    """The sine."""

    name = "graph.sin"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.sin(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.sin(x)


@irdl_op_definition
class CosOp(UnaryOp):
    """The cosine."""

    name = "graph.cos"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.cos(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.cos(x)


@irdl_op_definition
class TanOp(UnaryOp):
    """The tangent."""

    name = "graph.tan"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.tan(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.tan(x)


@irdl_op_definition
class AsinOp(UnaryOp):
    """The inverse sine."""

    name = "graph.asin"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.arcsin(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.asin(x)


@irdl_op_definition
class AcosOp(UnaryOp):
    """The inverse cosine."""

    name = "graph.acos"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.arccos(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.acos(x)


@irdl_op_definition
class AtanOp(UnaryOp):
    """The inverse tangent."""

    name = "graph.atan"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.arctan(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.atan(x)


@irdl_op_definition
class SinhOp(UnaryOp):
    """The hyperbolic sine."""

    name = "graph.sinh"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.sinh(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.sinh(x)


@irdl_op_definition
class CoshOp(UnaryOp):
    """The hyperbolic cosine."""

    name = "graph.cosh"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.cosh(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.cosh(x)


@irdl_op_definition
class TanhOp(UnaryOp):
    """The hyperbolic tangent."""

    name = "graph.tanh"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.tanh(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.tanh(x)

    def decompose(self) -> Sequence[Operation] | None:
        """Fuse with a softplus operand: one exponential instead of two and a logarithm."""
        owner = self.x.owner
        return [TanhSoftplusOp(owner.x)] if isinstance(owner, SoftplusOp) else None


@irdl_op_definition
class AsinhOp(UnaryOp):
    """The inverse hyperbolic sine."""

    name = "graph.asinh"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.arcsinh(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.asinh(x)


@irdl_op_definition
class AcoshOp(UnaryOp):
    """The inverse hyperbolic cosine."""

    name = "graph.acosh"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.arccosh(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.acosh(x)


@irdl_op_definition
class AtanhOp(UnaryOp):
    """The inverse hyperbolic tangent."""

    name = "graph.atanh"
    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.arctanh(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.atanh(x)


@irdl_op_definition
class NotOp(UnaryOp):
    """Logical negation."""

    name = "graph.not"
    DOMAIN: ClassVar[Domain] = Domain.BOOL

    def unchanged(self) -> SSAValue | None:
        """Return the operand's operand, if the operand is a negation too."""
        return self.x.owner.x if isinstance(self.x.owner, NotOp) else None

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.logical_not(x)

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return ~x


@irdl_op_definition
class IdentityOp(UnaryOp):
    """The identity function."""

    name = "graph.identity"
    EXACT: ClassVar[bool] = True
    DOMAIN: ClassVar[Domain] = Domain.ANY

    def unchanged(self) -> SSAValue | None:
        """Return the operand."""
        return self.x

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return x

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return x
