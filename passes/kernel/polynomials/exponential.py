"""exp, exp2, expm1, tanh.

exp(x) = 2^n e^r with n the integer nearest to x / ln 2. Adding 1.5 * 2^23 rounds to that
integer and leaves it in the low bits of the sum, from where a shift moves it into the
exponent. n stops at 127, so r may grow up to ln 2: the polynomials cover [-ln2/2, ln2], and
beyond them the result overflows to infinity by itself. Below, 2^n becomes zero.
"""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.ir import SSAValue

from tcopt.passes.kernel.polynomials.builder import FloatBuilder, expands

_ROUND = 12582912.0
"""1.5 * 2^23: adding it rounds to an integer."""
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 in two parts; n times the first is exact."""
_EXP = (
    0.4999999403953552,
    0.16666699945926666,
    0.04166807234287262,
    0.008326769806444645,
    0.0013838590821251273,
    0.0002325519744772464,
)
"""(e^r - 1 - r) / r^2."""
_EXP2 = (
    0.6931471824645996,
    0.24022647738456726,
    0.05550428479909897,
    0.00961849931627512,
    0.0013321368023753166,
    0.00015348391025327146,
    1.7947844753507525e-05,
)
"""(2^r - 1) / r."""


def _split(b: FloatBuilder, scaled: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Round to an integer n <= 127; returns n and 2^n."""
    shifted = b.minimum(scaled, _ROUND + 127)
    whole = b.sub(shifted, _ROUND)
    exponent = b.shift_left(b.bits(shifted), 23)
    return whole, b.from_bits(b.add_bits(exponent, b.integer(0x3F800000)))


def _exp_minus_one_parts(b: FloatBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """2^n and e^r - 1 for x >= -88."""
    whole, scale = _split(b, b.fma(x, _LOG2_E, _ROUND))
    rest = b.fma(whole, -_LN2_HIGH, x)
    rest = b.fma(whole, -_LN2_LOW, rest)
    square = b.mul(rest, rest)
    return scale, b.fma(square, b.polynomial(rest, _EXP), rest)


@expands(math.ExpOp)
def expand_exp(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """e^x within 1.5 ulp. inf and NaN as usual; results below 2^-126 are partly flushed to 0."""
    scale, less_one = _exp_minus_one_parts(b, b.maximum(x, -88.0))
    return b.mul(b.add(less_one, 1.0), scale)


@expands(math.Exp2Op)
def expand_exp2(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """2^x within 1.5 ulp, with the special cases of exp."""
    bounded = b.maximum(x, -127.0)
    whole, scale = _split(b, b.add(bounded, _ROUND))
    rest = b.sub(bounded, whole)
    return b.mul(b.fma(rest, b.polynomial(rest, _EXP2), 1.0), scale)


@expands(math.ExpM1Op)
def expand_expm1(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """e^x - 1 within 3 ulp, also near 0, where the sign of zero is kept."""
    return _expm1(b, x)


def _expm1(b: FloatBuilder, x: SSAValue) -> SSAValue:
    scale, less_one = _exp_minus_one_parts(b, b.maximum(x, -88.0))
    result = b.fma(scale, less_one, b.sub(scale, 1.0))
    return b.select(b.compare("oeq", x, 0.0), x, result)


@expands(math.TanhOp)
def expand_tanh(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """tanh within 4 ulp: t / (t + 2) with t = e^(2|x|) - 1, and the sign of x."""
    size = b.minimum(b.absolute(x), 10.0)
    scale, less_one = _exp_minus_one_parts(b, b.add(size, size))
    grown = b.fma(scale, less_one, b.sub(scale, 1.0))
    return b.with_sign(b.div(grown, b.add(grown, 2.0)), x)
