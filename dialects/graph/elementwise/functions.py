"""Operators that are a function of their operands and nothing else: one row each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from xdsl.irdl import IRDLOperation, irdl_op_definition

from tcopt.dialects.graph.elementwise.base import BinaryOp, Domain, Law, UnaryOp
from tcopt.dialects.graph.elementwise.numerics import (
    clip01,
    erf,
    power,
    prelu,
    rsqrt,
    sigmoid,
    sign,
    softplus,
    tanh_softplus,
)
from tcopt.support.arithmetic.sizes import maximum, minimum

_NUMBER, _BOOL, _INTEGRAL, _ANY = Domain.NUMBER, Domain.BOOL, Domain.INTEGRAL, Domain.ANY
_Op = TypeVar("_Op", bound=IRDLOperation)


def _unary(
    op: str,
    function: Callable[[Any], Any],
    doc: str,
    domain: Domain = Domain.FLOAT,
    *,
    exact: bool = False,
    steps: bool = False,
    law: Law | None = None,
    of_sizes: Callable[[Any], Any] | None = None,
) -> type[UnaryOp]:
    """Define an operator with one operand; for the options, see `ElementwiseOp` and `UnaryOp`."""

    class Row(UnaryOp):
        __doc__ = doc
        name = f"graph.{op}"
        DOMAIN: ClassVar[Domain] = domain
        EXACT: ClassVar[bool] = exact
        STEPS: ClassVar[bool] = steps
        LAW: ClassVar[Law | None] = law
        OF_SIZES: ClassVar[Callable[..., Any] | None] = of_sizes

        def compute(self, x: Any) -> Any:
            return function(x)

    return _named(Row, op)


def _binary(
    op: str,
    function: Callable[[Any, Any], Any],
    doc: str,
    domain: Domain = _NUMBER,
    *,
    exact: bool = False,
    neutral_rhs: float | None = None,
    of_sizes: Callable[..., Any] | None = None,
) -> type[BinaryOp]:
    """Define an operator with two operands; for the options, see `ElementwiseOp` and `BinaryOp`."""

    class Row(BinaryOp):
        __doc__ = doc
        name = f"graph.{op}"
        DOMAIN: ClassVar[Domain] = domain
        EXACT: ClassVar[bool] = exact
        NEUTRAL_RHS: ClassVar[float | None] = neutral_rhs
        OF_SIZES: ClassVar[Callable[..., Any] | None] = of_sizes

        def compute(self, lhs: Any, rhs: Any) -> Any:
            return function(lhs, rhs)

    return _named(Row, op)


def _named(row: type[_Op], op: str) -> type[_Op]:
    """Name the class of an operator: `tanh_softplus` is `TanhSoftplusOp`."""
    row.__name__ = row.__qualname__ = f"{op.title().replace('_', '')}Op"
    return irdl_op_definition(row)


# Functions of one number.
_of_sizes = partial(_unary, domain=_NUMBER, exact=True)
AbsOp = _of_sizes("abs", np.abs, "The absolute value.", law=Law.IDEMPOTENT, of_sizes=abs)
NegOp = _of_sizes(
    "neg", np.negative, "The negation of x.", law=Law.INVOLUTION, of_sizes=operator.neg
)
SignOp = _unary("sign", sign, "Sign: -1, 0 or 1; nan stays nan.", _NUMBER, exact=True, steps=True)
NotOp = _unary("not", operator.invert, "Logical negation.", _BOOL, law=Law.INVOLUTION)
IdentityOp = _unary(
    "identity",
    lambda x: x,
    "The identity function.",
    _ANY,
    exact=True,
    law=Law.IDENTITY,
    of_sizes=lambda x: x,
)
ReciprocalOp = _unary("reciprocal", lambda x: 1 / x, "One over x.")
SqrtOp = _unary("sqrt", np.sqrt, "The square root.")
RsqrtOp = _unary("rsqrt", rsqrt, "One over the square root.")

# Rounding.
_rounding = partial(_unary, exact=True, steps=True, law=Law.IDEMPOTENT, of_sizes=operator.pos)
FloorOp = _rounding("floor", np.floor, "Round down to an integer.")
CeilOp = _rounding("ceil", np.ceil, "Round up to an integer.")
RoundOp = _rounding("round", np.rint, "Round to the nearest integer, ties to even.")

# Transcendental functions.
ExpOp = _unary("exp", np.exp, "e to the power x.")
LogOp = _unary("log", np.log, "The natural logarithm.")
ErfOp = _unary("erf", erf, "The error function.")
SinOp = _unary("sin", np.sin, "The sine.")
CosOp = _unary("cos", np.cos, "The cosine.")
TanOp = _unary("tan", np.tan, "The tangent.")
AsinOp = _unary("asin", np.arcsin, "The inverse sine.")
AcosOp = _unary("acos", np.arccos, "The inverse cosine.")
AtanOp = _unary("atan", np.arctan, "The inverse tangent.")
SinhOp = _unary("sinh", np.sinh, "The hyperbolic sine.")
CoshOp = _unary("cosh", np.cosh, "The hyperbolic cosine.")
AsinhOp = _unary("asinh", np.arcsinh, "The inverse hyperbolic sine.")
AcoshOp = _unary("acosh", np.arccosh, "The inverse hyperbolic cosine.")
AtanhOp = _unary("atanh", np.arctanh, "The inverse hyperbolic tangent.")

# Activations.
SigmoidOp = _unary("sigmoid", sigmoid, "1 / (1 + exp(-x)).")
SiluOp = _unary("silu", lambda x: x * sigmoid(x), "x * sigmoid(x), also called swish.")
SoftplusOp = _unary(
    "softplus",
    softplus,
    "log(1 + exp(x)), computed as max(x, 0) + log(1 + exp(-|x|)).",
)
TanhSoftplusOp = _unary(
    "tanh_softplus",
    tanh_softplus,
    "tanh(softplus(x)), a factor of Mish, computed with a single exponential.",
)
MishOp = _unary("mish", lambda x: x * tanh_softplus(x), "x * tanh(softplus(x)).")
HardSwishOp = _unary(
    "hard_swish", lambda x: x * clip01(x * (1 / 6) + 0.5), "x * clip(x / 6 + 1 / 2, 0, 1)."
)

# Functions of two numbers.
PowOp = _binary("pow", power, "lhs to the power of rhs.", neutral_rhs=1)
MaxOp = _binary("max", np.maximum, "Maximum; nan propagates.", exact=True, of_sizes=maximum)
MinOp = _binary("min", np.minimum, "Minimum; nan propagates.", exact=True, of_sizes=minimum)
PreluOp = _binary("prelu", prelu, "lhs where lhs >= 0, lhs * rhs (the slope) elsewhere.")
AndOp = _binary("and", np.bitwise_and, "Logical and of i1, bitwise and of integers.", _INTEGRAL)
OrOp = _binary("or", np.bitwise_or, "Logical or of i1, bitwise or of integers.", _INTEGRAL)
XorOp = _binary(
    "xor",
    np.bitwise_xor,
    "Logical exclusive or of i1, bitwise exclusive or of integers.",
    _INTEGRAL,
)
