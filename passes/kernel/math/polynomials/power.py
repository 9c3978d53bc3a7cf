"""Expansion of f32 powers: x^y = 2^(y log2 |x|), with the sign of x for odd y.

The logarithm, the product and the exponential are computed in f64 by short polynomials, and the
result is rounded once, so that exact results, such as small integers to small integers, are exact:
y log2 x may be as large as 128, which takes 7 bits more than the result has.
"""

from __future__ import annotations

import math as numbers

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f64, i64
from xdsl.ir import SSAValue

from tcopt.passes.kernel.math.polynomials.builder import FloatBuilder
from tcopt.passes.kernel.math.polynomials.logarithm import split_exponent

_LOG2 = (
    1.4426950408686248,
    -0.7213475208701149,
    0.4808983614450813,
    -0.36067367462422395,
    0.2885372886140843,
    -0.2404531709730876,
    0.2061755258560571,
    -0.18030067020058027,
    0.15876750474704507,
    -0.1431532406271462,
    0.1447587184775961,
    -0.14286287324608057,
    0.07738004897507648,
)
"""Coefficients of log2(1 + f) / f within a relative error of 2^-35, for 1 + f in [sqrt(1/2),
sqrt(2)].
"""
_EXP2 = (
    0.6931471807057217,
    0.24022651068813095,
    0.055504103628997443,
    0.009618037765116319,
    0.001333393662510204,
    0.0001546688355855332,
    1.5196030564013148e-05,
)
"""Coefficients of (2^r - 1) / r for r in [-1/2, 1/2]; 2^r is within a relative error of 2^-34."""
_ROUND = 6755399441055744.0 + 1023
"""1.5 * 2^52: adding it rounds to an integer. It includes the exponent's bias of 1023."""
_LOWEST, _HIGHEST = -160.0, 136.0
"""Exponents whose results are zero and infinity in f32."""


def expand_power(
    b: FloatBuilder,
    x: SSAValue,
    y: SSAValue,
    base: float | None = None,
    exponent: float | None = None,
) -> SSAValue:
    """Expand x^y within 0.6 ulp, with the special values of C's pow; denormal results are
    supported.

    Args:
        b: the builder.
        x, y: f32 values.
        base, exponent: values of x and y, if they are constant.
    """
    if base is not None and base > 0 and numbers.isfinite(base):
        wide = b.mul(b.widen(y), numbers.log2(base))
        # 1 to any power is 1; for other bases, NaN and infinities of y propagate correctly.
        return b.constant(1.0) if base == 1 else b.narrow(_exp2(b, wide))
    size = b.absolute(x)
    power, rest = split_exponent(b, size)
    power = b.select(b.compare("oeq", size, 0.0), float("-inf"), power)
    power = b.select(b.compare("olt", size, float("inf")), power, size)
    # The logarithm is zero for an exponent of 0 and a base of 1 or -1, whose power has magnitude 1.
    power = b.select(b.compare("oeq", y, 0.0), 0.0, power)
    factor = b.select(b.compare("oeq", size, 1.0), 0.0, y)
    wide = b.widen(rest)
    logarithm = b.polynomial_by_pairs(wide, b.mul(wide, wide), _LOG2)
    logarithm = b.fma(wide, logarithm, b.widen(power))
    result = b.narrow(_exp2(b, b.mul(logarithm, b.widen(factor))))
    if exponent is None:
        return _with_sign(b, x, y, result)
    if exponent % 2 == 1:
        return b.with_sign(result, x)
    even = exponent % 1 == 0 or numbers.isinf(exponent)
    return result if even else _without_negative(b, x, result)


def _exp2(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Return 2^x of f64 values, for results in the range of f32."""
    bounded = b.minimum(b.maximum(x, _LOWEST), _HIGHEST)
    shifted = b.add(bounded, _ROUND)
    rest = b.sub(bounded, b.sub(shifted, _ROUND))
    bits = b.add_op(arith.BitcastOp(shifted, b.type_of(i64)))
    moved = b.add_op(arith.ShLIOp(bits, b.constant(52, i64)))
    scale = b.add_op(arith.BitcastOp(moved, b.type_of(f64)))
    part = b.polynomial_by_pairs(rest, b.mul(rest, rest), _EXP2)
    return b.mul(b.fma(part, rest, 1.0), scale)


def _with_sign(b: FloatBuilder, x: SSAValue, y: SSAValue, size: SSAValue) -> SSAValue:
    """Apply the sign of x if y is odd; NaN for finite negative x if y is not an integer."""
    half = b.mul(y, 0.5)
    whole = b.compare("oeq", b.add_op(math.TruncOp(y)), y)
    halves = b.compare("one", b.add_op(math.TruncOp(half)), half)
    odd = b.add_op(arith.AndIOp(whole, halves))
    signed = b.select(odd, b.with_sign(size, x), size)
    return b.select(whole, signed, _without_negative(b, x, size))


def _without_negative(b: FloatBuilder, x: SSAValue, result: SSAValue) -> SSAValue:
    """Return NaN if x is finite and negative, otherwise the result."""
    finite = b.compare("ogt", x, float("-inf"))
    negative = b.compare("olt", x, 0.0)
    return b.select(b.add_op(arith.AndIOp(finite, negative)), float("nan"), result)
