"""sin and cos: x = n pi/2 + r, then a polynomial in r chosen by n.

The reduction is done in f64, so it is exact enough for |x| below 1e9, or 1e6 on CPUs without
fused multiply-add. Far beyond, results lie between -1 and 1 but mean nothing.
"""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from tcopt.dialects import arith_
from tcopt.passes.kernel.math.polynomials.builder import FloatBuilder, expands

_ROUND = 6755399441055744.0
"""1.5 * 2^52: adding it rounds an f64 to an integer, left in its low bits."""
_TWO_OVER_PI = 0.6366197723675814
_HALF_PI_HIGH, _HALF_PI_LOW = 1.57079632673412561417, 6.07710050650619224932e-11
"""pi/2 in two parts; the first has 33 bits, so that its small multiples are exact."""
_SIN = (
    -0.1666666716337204,
    0.008333329111337662,
    -0.00019839330343529582,
    2.7182743451703573e-06,
)
"""(sin r - r) / r^3 in powers of r^2."""
_COS = (0.0416666679084301, -0.0013888883404433727, 2.4799515813356265e-05, -2.720989016324893e-07)
"""(cos r - 1 + r^2/2) / r^4 in powers of r^2."""


def _reduce(b: FloatBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """n as i32, and r in [-pi/4, pi/4]."""
    wide = b.widen(x)
    shifted = b.add(b.mul(wide, _TWO_OVER_PI), _ROUND)
    whole = b.sub(shifted, _ROUND)
    rest = b.fma(whole, -_HALF_PI_HIGH, wide)
    rest = b.fma(whole, -_HALF_PI_LOW, rest)
    bits = b.add_op(arith.BitcastOp(shifted, b.type_of(i64)))
    narrow = b.maximum(b.minimum(b.narrow(rest), 0.8), -0.8)
    return b.add_op(arith_.TruncIOp(bits, b.type_of(i32))), narrow


def _wave(b: FloatBuilder, quadrant: SSAValue, rest: SSAValue) -> SSAValue:
    """sin(quadrant pi/2 + rest)."""
    square = b.mul(rest, rest)
    sine = b.fma(b.mul(square, rest), b.polynomial(square, _SIN), rest)
    cosine = b.fma(b.mul(square, square), b.polynomial(square, _COS), b.fma(square, -0.5, 1.0))
    odd = b.and_bits(quadrant, b.integer(1))
    is_odd = b.add_op(arith_.CmpiOp(odd, b.integer(0), "ne"))
    value = b.select(is_odd, cosine, sine)
    # Bit 1 of the quadrant is the sign of the result.
    sign = b.shift_left(b.and_bits(quadrant, b.integer(2)), 30)
    return b.from_bits(b.add_op(arith.XOrIOp(b.bits(value), sign)))


@expands(math.SinOp)
def expand_sin(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """sin within 1.5 ulp for |x| < 1e9; NaN for infinities."""
    quadrant, rest = _reduce(b, x)
    return _wave(b, quadrant, rest)


@expands(math.CosOp)
def expand_cos(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """cos within 1.5 ulp for |x| < 1e9; NaN for infinities."""
    quadrant, rest = _reduce(b, x)
    return _wave(b, b.add_bits(quadrant, b.integer(1)), rest)
