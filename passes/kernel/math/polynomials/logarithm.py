"""Expansions of log, log2, log10 and log1p.

x = 2^e m with m in [sqrt(1/2), sqrt(2)), and log m = f - f^2/2 + f^3 P(f) with f = m - 1.
"""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.ir import SSAValue

from tcopt.passes.kernel.math.polynomials.builder import FloatBuilder, expands

_SMALLEST_NORMAL = 2.0**-126
_SQRT_HALF_BITS = 0x3F3504F3
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_LOG2_E_HIGH, _LOG2_E_LOW = 1.4423828125, 3.1222839e-4
_LOG10_E, _LOG10_2 = 0.4342944819032518, 0.3010299956639812
_LOG = (
    0.3333331346511841,
    -0.25000008940696716,
    0.20002123713493347,
    -0.16668005287647247,
    0.14219450950622559,
    -0.12405341118574142,
    0.11888712644577026,
    -0.11677516996860504,
    0.06747698783874512,
)


def split_exponent(b: FloatBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return e as a float, and m - 1; numbers below 2^-126 are scaled up first."""
    tiny = b.compare("olt", x, _SMALLEST_NORMAL)
    scaled = b.select(tiny, b.mul(x, 2.0**23), x)
    bits = b.bits(scaled)
    exponent = b.shift_right(b.sub_bits(bits, b.integer(_SQRT_HALF_BITS)), 23)
    mantissa = b.from_bits(b.sub_bits(bits, b.shift_left(exponent, 23)))
    power = b.to_float(exponent)
    return b.select(tiny, b.sub(power, 23.0), power), b.sub(mantissa, 1.0)


def _tail(b: FloatBuilder, f: SSAValue) -> SSAValue:
    """Return log(1 + f) - f."""
    square = b.mul(f, f)
    cubic = b.mul(b.mul(square, f), b.polynomial(f, _LOG))
    return b.fma(square, -0.5, cubic)


def _special(b: FloatBuilder, x: SSAValue, result: SSAValue) -> SSAValue:
    """Apply the special cases: log 0 = -inf, log inf = inf, NaN for negative numbers and NaN."""
    result = b.select(b.compare("ogt", x, 0.0), result, float("nan"))
    result = b.select(b.compare("oeq", x, float("inf")), x, result)
    return b.select(b.compare("oeq", x, 0.0), float("-inf"), result)


def _log(b: FloatBuilder, x: SSAValue) -> SSAValue:
    power, f = split_exponent(b, x)
    tail = b.fma(power, _LN2_LOW, _tail(b, f))
    return _special(b, x, b.fma(power, _LN2_HIGH, b.add(f, tail)))


@expands(math.LogOp)
def expand_log(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand the natural logarithm within 2 ulp, for denormal numbers too."""
    return _log(b, x)


@expands(math.Log2Op)
def expand_log2(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand the logarithm to base 2 within 3 ulp; exact for powers of two."""
    power, f = split_exponent(b, x)
    tail = _tail(b, f)
    low = b.fma(f, _LOG2_E_LOW, b.mul(tail, _LOG2_E_HIGH + _LOG2_E_LOW))
    return _special(b, x, b.add(b.fma(f, _LOG2_E_HIGH, low), power))


@expands(math.Log10Op)
def expand_log10(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand the logarithm to base 10 within 4 ulp."""
    return b.mul(_log(b, x), _LOG10_E)


@expands(math.Log1pOp)
def expand_log1p(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand log(1 + x) within 3 ulp: the rounding error of 1 + x is added back."""
    total = b.add(x, 1.0)
    lost = b.div(b.sub(x, b.sub(total, 1.0)), total)
    # At -1 and infinity the correction is NaN and not needed.
    lost = b.select(b.compare("uno", lost, lost), 0.0, lost)
    result = b.add(_log(b, total), lost)
    return b.select(b.compare("oeq", x, 0.0), x, result)
