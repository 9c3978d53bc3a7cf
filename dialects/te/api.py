"""The tensor-expression language in Python.

    x = te.placeholder((1, 512), name="x")
    w = te.placeholder((1000, 512), name="w")
    k = te.reduce_axis(512, "k")
    mm = te.compute((1, 1000), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="mm")
    y = te.compute((1, 1000), lambda i, j: te.maximum(mm[i, j], 0.0), name="relu")
    func = te.func("fc", [x, w], [y])

Follows section 4.1 of the TVM paper. The functions here build expressions and compute nothing.
Operands of an operation share a dtype; numbers and indices adapt to it.

Extents may be sizes that are known when a program runs: `n = named_size("n", 1, 512)`, then
`te.placeholder((n, 768))` and `x[n - 1 - i]`. Reads must be in bounds for every value of a size.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce as _fold

from tcopt.dialects.te.build import func
from tcopt.dialects.te.dtypes import ExpressionError, element_type
from tcopt.dialects.te.expr import (
    Axis,
    Const,
    Expr,
    ExprLike,
    Index,
    Reduce,
    as_expr,
    binary,
    compare,
    const,
    power,
    select,
    unary,
)
from tcopt.dialects.te.functions import cast, index, lookup, saturate, scale
from tcopt.dialects.te.ops import Combiner
from tcopt.dialects.te.tensor import (
    Placeholder,
    Stage,
    Tensor,
    compute,
    placeholder,
    reduce,
    reduce_axis,
)

__all__ = [
    "Axis",
    "Const",
    "Expr",
    "ExpressionError",
    "Index",
    "Placeholder",
    "Stage",
    "Tensor",
    "cast",
    "compute",
    "const",
    "element_type",
    "func",
    "index",
    "placeholder",
    "reduce_axis",
    "saturate",
    "lookup",
    "scale",
    "select",
]

Axes = Axis | Iterable[Axis]

# Reductions.


def sum(term: ExprLike, axis: Axes) -> Reduce:
    """The sum of `term` over reduce axes; 0 if there are no terms."""
    return reduce(Combiner.SUM, term, axis)


def prod(term: ExprLike, axis: Axes) -> Reduce:
    """The product of `term` over reduce axes; 1 if there are no terms."""
    return reduce(Combiner.PROD, term, axis)


def max(term: ExprLike, axis: Axes) -> Reduce:
    """The maximum of `term` over reduce axes; nan if one is nan."""
    return reduce(Combiner.MAX, term, axis)


def min(term: ExprLike, axis: Axes) -> Reduce:
    """The minimum of `term` over reduce axes; nan if one is nan."""
    return reduce(Combiner.MIN, term, axis)


# Selection and conditions.


def if_then_else(condition: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """`a` where the condition holds, `b` elsewhere.

    Reads in `a` and `b` may be out of bounds where their branch is not taken.
    """
    return select(condition, a, b, guard=True)


def all(*conditions: ExprLike) -> Expr:
    """The logical and of all conditions."""
    return _fold(lambda a, b: a & b, [as_expr(c) for c in conditions])


def any(*conditions: ExprLike) -> Expr:
    """The logical or of all conditions."""
    return _fold(lambda a, b: a | b, [as_expr(c) for c in conditions])


def logical_not(condition: ExprLike) -> Expr:
    """The logical negation of a condition."""
    return ~as_expr(condition)


def equal(a: ExprLike, b: ExprLike) -> Expr:
    """`a == b`."""
    return compare("eq", a, b)


def not_equal(a: ExprLike, b: ExprLike) -> Expr:
    """`a != b`; true when one is nan."""
    return compare("ne", a, b)


# Arithmetic.


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger of two values; nan if one is nan."""
    return binary("max", a, b)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller of two values; nan if one is nan."""
    return binary("min", a, b)


def fmax(a: ExprLike, b: ExprLike) -> Expr:
    """The larger of two floats; nan is ignored unless both are nan."""
    return binary("fmax", a, b)


def fmin(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller of two floats; nan is ignored unless both are nan."""
    return binary("fmin", a, b)


def pow(x: ExprLike, exponent: ExprLike) -> Expr:
    """`x` to the power `exponent`."""
    return power(x, exponent)


def fmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder with the dividend's sign."""
    return binary("fmod", a, b)


def shift_left(a: ExprLike, b: ExprLike) -> Expr:
    """Integer `a` shifted left by `b` bits."""
    return binary("shl", a, b)


def shift_right(a: ExprLike, b: ExprLike) -> Expr:
    """Integer `a` shifted right by `b` bits; signed integers keep their sign."""
    return binary("shr", a, b)


def neg(x: ExprLike) -> Expr:
    """`-x`."""
    return unary("neg", x)


def abs(x: ExprLike) -> Expr:
    """The magnitude of `x`."""
    return unary("abs", x)


def floor(x: ExprLike) -> Expr:
    """Round towards negative infinity, in the type of `x`."""
    return unary("floor", x)


def ceil(x: ExprLike) -> Expr:
    """Round towards positive infinity, in the type of `x`."""
    return unary("ceil", x)


def round(x: ExprLike) -> Expr:
    """Round to the nearest integer, ties to even, in the type of `x`."""
    return unary("round", x)


def trunc(x: ExprLike) -> Expr:
    """Round towards zero, in the type of `x`."""
    return unary("trunc", x)


# Transcendental functions, on floats.


def exp(x: ExprLike) -> Expr:
    """The exponential function, e to the power `x`."""
    return unary("exp", x)


def log(x: ExprLike) -> Expr:
    """The natural logarithm."""
    return unary("log", x)


def sqrt(x: ExprLike) -> Expr:
    """The square root."""
    return unary("sqrt", x)


def rsqrt(x: ExprLike) -> Expr:
    """One over the square root."""
    return unary("rsqrt", x)


def erf(x: ExprLike) -> Expr:
    """The error function."""
    return unary("erf", x)


def tanh(x: ExprLike) -> Expr:
    """The hyperbolic tangent."""
    return unary("tanh", x)


def sin(x: ExprLike) -> Expr:
    """The sine."""
    return unary("sin", x)


def cos(x: ExprLike) -> Expr:
    """The cosine."""
    return unary("cos", x)


def tan(x: ExprLike) -> Expr:
    """The tangent."""
    return unary("tan", x)


def asin(x: ExprLike) -> Expr:
    """The inverse sine."""
    return unary("asin", x)


def acos(x: ExprLike) -> Expr:
    """The inverse cosine."""
    return unary("acos", x)


def atan(x: ExprLike) -> Expr:
    """The inverse tangent."""
    return unary("atan", x)


def sinh(x: ExprLike) -> Expr:
    """The hyperbolic sine."""
    return unary("sinh", x)


def cosh(x: ExprLike) -> Expr:
    """The hyperbolic cosine."""
    return unary("cosh", x)


def asinh(x: ExprLike) -> Expr:
    """The inverse hyperbolic sine."""
    return unary("asinh", x)


def acosh(x: ExprLike) -> Expr:
    """The inverse hyperbolic cosine."""
    return unary("acosh", x)


def atanh(x: ExprLike) -> Expr:
    """The inverse hyperbolic tangent."""
    return unary("atanh", x)
