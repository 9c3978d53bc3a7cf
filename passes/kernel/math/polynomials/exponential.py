"""Expansions of exp, exp2, expm1 and tanh.

exp(x) = 2^n e^r with n the integer nearest to x / ln 2. Adding 1.5 * 2^23 + 127 rounds to that
integer and leaves n + 127 in the low bits of the sum, from which a shift moves it into the
exponent. n is limited to 127, so r may be up to ln 2: the polynomials cover [-ln2/2, ln2], and
beyond that the result overflows to infinity. For small x, 2^n becomes zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from tcopt.passes.kernel.math.polynomials.builder import FloatBuilder, expands

_ROUND = 12582912.0 + 127
"""1.5 * 2^23: adding it rounds to an integer. It includes the exponent's bias of 127."""
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 in two parts; n times the first is exact."""
_EXP = (
    1.0,
    0.9999998807907104,
    0.5000022649765015,
    0.1666719764471054,
    0.041620124131441116,
    0.008319037035107613,
    0.0016311348881572485,
)
"""Coefficients of e^r, within 0.7 ulp."""
_EXP_MINUS_ONE = (
    0.4999999403953552,
    0.16666699945926666,
    0.04166807234287262,
    0.008326769806444645,
    0.0013838590821251273,
    0.0002325519744772464,
)
"""Coefficients of (e^r - 1 - r) / r^2."""
_EXP2 = (
    0.6931471824645996,
    0.24022647738456726,
    0.05550428479909897,
    0.00961849931627512,
    0.0013321368023753166,
    0.00015348391025327146,
    1.7947844753507525e-05,
)
"""Coefficients of (2^r - 1) / r."""


def _split(b: FloatBuilder, scaled: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Round to an integer n <= 127; return n and 2^n."""
    shifted = b.minimum(scaled, _ROUND + 127)
    whole = b.sub(shifted, _ROUND)
    return whole, b.from_bits(b.shift_left(b.bits(shifted), 23))


def _reduce(b: FloatBuilder, x: SSAValue, sign: int = 1) -> tuple[SSAValue, SSAValue]:
    """Return 2^n and `sign * r`, for `sign * x` >= -88."""
    whole, scale = _split(b, b.fma(x, sign * _LOG2_E, _ROUND))
    rest = b.fma(whole, -sign * _LN2_HIGH, x)
    return scale, b.fma(whole, -sign * _LN2_LOW, rest)


def _exp_minus_one_parts(b: FloatBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return 2^n and e^r - 1 for x >= -88."""
    scale, rest = _reduce(b, x)
    square = b.product(rest, rest)
    return scale, b.fma(square, b.polynomial_by_pairs(rest, square, _EXP_MINUS_ONE), rest)


@expands(math.ExpOp)
def expand_exp(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand e^x within 1.5 ulp, with the usual inf and NaN; results below 2^-126 are partly
    flushed to 0.

    For the exponential of a negation, signs of the constants are flipped instead.
    """
    if isinstance(x.owner, arith.NegfOp):
        bounded = b.minimum(x.owner.operand, 88.0)
        scale, rest = _reduce(b, bounded, -1)
        return b.scaled(b.polynomial(rest, _alternating(_EXP)), scale)
    scale, rest = _reduce(b, b.maximum(x, -88.0))
    return b.scaled(b.polynomial(rest, _EXP), scale)


def _alternating(coefficients: Sequence[float]) -> list[float]:
    """Return the coefficients of the polynomial at -x."""
    return [-c if power % 2 else c for power, c in enumerate(coefficients)]


@expands(math.Exp2Op)
def expand_exp2(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand 2^x within 1.5 ulp, with the special cases of exp."""
    bounded = b.maximum(x, -127.0)
    whole, scale = _split(b, b.add(bounded, _ROUND))
    rest = b.sub(bounded, whole)
    return b.scaled(b.fma(rest, b.polynomial(rest, _EXP2), 1.0), scale)


@expands(math.ExpM1Op)
def expand_expm1(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand e^x - 1 within 3 ulp, also near 0, with the sign of zero preserved."""
    return _expm1(b, x)


def _expm1(b: FloatBuilder, x: SSAValue) -> SSAValue:
    scale, less_one = _exp_minus_one_parts(b, b.maximum(x, -88.0))
    result = b.fma(scale, less_one, b.sub(scale, 1.0))
    return b.select(b.compare("oeq", x, 0.0), x, result)


@expands(math.TanhOp)
def expand_tanh(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand tanh within 4 ulp: t / (t + 2) with t = e^(2|x|) - 1, and the sign of x."""
    size = b.minimum(b.absolute(x), 10.0)
    scale, less_one = _exp_minus_one_parts(b, b.add(size, size))
    grown = b.fma(scale, less_one, b.sub(scale, 1.0))
    return b.with_sign(b.div(grown, b.add(grown, 2.0)), x)
