"""Expansions of exp, expm1, tanh, log and log1p for f64, in the same form as those for f32.

e^r is its Taylor polynomial for |r| <= ln2/2, whose next term is below 2^-57. 2^n is a product of
two powers, as n is from -1076 to 1024, and a single power would be out of range. The logarithm is
that of fdlibm: with s = f / (2 + f), log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)). Conversions
between integers and f64 are avoided, as CPUs before AVX-512 cannot vectorise them.
"""

from __future__ import annotations

from math import factorial

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f64, i64
from xdsl.ir import SSAValue

from tcopt.passes.kernel.math.polynomials.builder import FloatBuilder, expands_wide

_ROUND = 6755399441055744.0
"""1.5 * 2^52: adding it rounds to an integer, which is in the low bits of the sum."""
_BIAS, _MANTISSA_BITS = 1023, 52
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 in two parts; n times the first is exact."""
_LOWEST, _HIGHEST = -746.0, 710.0
"""Arguments beyond which exp is zero, and infinity."""
_EXP = tuple(1 / factorial(power) for power in range(14))
_SMALLEST_NORMAL = 2.0**-1022
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_MANTISSA = (1 << _MANTISSA_BITS) - 1
_LOG = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
"""Coefficients of R(z) / z in powers of z = s^2."""


def _bits(b: FloatBuilder, value: SSAValue) -> SSAValue:
    return b.add_op(arith.BitcastOp(value, b.type_of(i64)))


def _from_bits(b: FloatBuilder, value: SSAValue) -> SSAValue:
    return b.add_op(arith.BitcastOp(value, b.type_of(f64)))


def _power_of_two(b: FloatBuilder, whole: SSAValue) -> SSAValue:
    """Return 2^n for an integer n in the exponent range of normal numbers."""
    bits = _bits(b, b.add(whole, _ROUND + _BIAS))
    return _from_bits(b, b.add_op(arith.ShLIOp(bits, b.constant(_MANTISSA_BITS, i64))))


def _reduce(b: FloatBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return n and r of a number within the bounds."""
    whole = b.sub(b.fma(x, _LOG2_E, _ROUND), _ROUND)
    return whole, b.fma(whole, -_LN2_LOW, b.fma(whole, -_LN2_HIGH, x))


def _halves(b: FloatBuilder, whole: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Split an integer into a sum of two of about equal size."""
    half = b.sub(b.fma(whole, 0.5, _ROUND), _ROUND)
    return half, b.sub(whole, half)


def _less_one(b: FloatBuilder, rest: SSAValue) -> SSAValue:
    """Return e^r - 1."""
    square = b.product(rest, rest)
    return b.fma(square, b.polynomial_by_pairs(rest, square, _EXP[2:]), rest)


@expands_wide(math.ExpOp)
def expand_exp(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand e^x within 1 ulp, also for denormal results."""
    whole, rest = _reduce(b, b.minimum(b.maximum(x, _LOWEST), _HIGHEST))
    part = b.add(_less_one(b, rest), 1.0)
    half, other = _halves(b, whole)
    return b.mul(b.mul(part, _power_of_two(b, half)), _power_of_two(b, other))


@expands_wide(math.ExpM1Op)
def expand_expm1(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand e^x - 1 within 2 ulp, also near 0, with the sign of zero preserved."""
    whole, rest = _reduce(b, b.minimum(b.maximum(x, -40.0), _HIGHEST))
    half, other = _halves(b, whole)
    scale, inverse = _power_of_two(b, half), _power_of_two(b, b.sub(0.0, half))
    second = _power_of_two(b, other)
    # The result is 2^half (2^other (e^r - 1) + 2^other - 2^-half).
    grown = b.fma(second, _less_one(b, rest), b.sub(second, inverse))
    return b.select(b.compare("oeq", x, 0.0), x, b.mul(grown, scale))


@expands_wide(math.TanhOp)
def expand_tanh(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand tanh within 3 ulp: t / (t + 2) with t = e^(2|x|) - 1, and the sign of x."""
    size = b.minimum(b.absolute(x), 20.0)
    whole, rest = _reduce(b, b.add(size, size))
    scale = _power_of_two(b, whole)
    grown = b.fma(scale, _less_one(b, rest), b.sub(scale, 1.0))
    return b.with_sign(b.div(grown, b.add(grown, 2.0)), x)


def _log(b: FloatBuilder, x: SSAValue) -> SSAValue:
    tiny = b.compare("olt", x, _SMALLEST_NORMAL)
    bits = _bits(b, b.select(tiny, b.mul(x, 2.0**54), x))
    moved = b.sub_bits(bits, b.constant(_SQRT_HALF_BITS, i64))
    mantissa = b.and_bits(moved, b.constant(_MANTISSA, i64))
    f = b.sub(_from_bits(b, b.add_bits(mantissa, b.constant(_SQRT_HALF_BITS, i64))), 1.0)
    # The biased exponent, in the low bits of 2^52.
    biased = b.add_bits(moved, b.constant(_BIAS << _MANTISSA_BITS, i64))
    biased = b.add_op(arith.ShRUIOp(biased, b.constant(_MANTISSA_BITS, i64)))
    whole = b.add_op(arith.OrIOp(biased, b.constant((_BIAS + 52) << _MANTISSA_BITS, i64)))
    power = b.sub(_from_bits(b, whole), 2.0**52 + _BIAS)
    power = b.select(tiny, b.sub(power, 54.0), power)
    half = b.mul(b.mul(f, f), 0.5)
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    tail = b.mul(z, b.polynomial_by_pairs(z, b.mul(z, z), _LOG))
    low = b.fma(s, b.add(half, tail), b.mul(power, _LN2_LOW))
    return b.fma(power, _LN2_HIGH, b.sub(f, b.sub(half, low)))


def _special(b: FloatBuilder, x: SSAValue, result: SSAValue) -> SSAValue:
    """Apply the special cases: log 0 = -inf, log inf = inf, NaN for negative numbers and NaN."""
    result = b.select(b.compare("ogt", x, 0.0), result, float("nan"))
    result = b.select(b.compare("oeq", x, float("inf")), x, result)
    return b.select(b.compare("oeq", x, 0.0), float("-inf"), result)


@expands_wide(math.LogOp)
def expand_log(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand the natural logarithm within 1 ulp, for denormal numbers too."""
    return _special(b, x, _log(b, x))


@expands_wide(math.Log1pOp)
def expand_log1p(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand log(1 + x) within 2 ulp: the rounding error of 1 + x is added back."""
    total = b.add(x, 1.0)
    # The rounding error of 1 + x, whichever of the two is larger.
    part = b.sub(total, x)
    near = b.sub(x, b.sub(total, 1.0))
    lost = b.select(b.compare("ogt", x, 1.0), b.sub(1.0, part), near)
    lost = b.div(lost, total)
    # At -1 and infinity the correction is NaN and not needed.
    lost = b.select(b.compare("uno", lost, lost), 0.0, lost)
    result = b.add(_special(b, total, _log(b, total)), lost)
    return b.select(b.compare("oeq", x, 0.0), x, result)
