"""Expansions of sin and cos: x = n pi/2 + r, then a polynomial in r chosen by n.

The reduction is done in f64: with pi/2 in two parts for |x| below 2^30, or 2^20 on CPUs without
fused multiply-add. If an element of a vector is larger, a branch reduces it with 203 bits of 2/pi,
after Payne and Hanek (Radian Reduction for Trigonometric Functions, 1983).
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import arith, math, scf, vector
from xdsl.dialects.builtin import Float16Type, f64, i32, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.type import get_element_type_or_self

from tcopt.dialects import arith_, vector_
from tcopt.passes.kernel.math.polynomials.builder import FloatBuilder, expands
from tcopt.support.ir.pure_values import PureValues

_ROUND = 6755399441055744.0
"""1.5 * 2^52: adding it rounds an f64 to an integer, left in its low bits."""
_TWO_OVER_PI = 0.6366197723675814
_HALF_PI = 1.5707963267948966
_HALF_PI_HIGH, _HALF_PI_LOW = 1.57079632673412561417, 6.07710050650619224932e-11
"""pi/2 in two parts; the first has 33 bits, so that its small multiples are exact."""
_TWO_OVER_PI_BITS = (
    341782637,
    423170132,
    352195499,
    488592205,
    461485765,
    90590992,
    478285810,
)
"""2/pi in parts of 29 bits, starting at the binary point: products with an f32 are exact in f64,
and 7 parts leave an error below 2^-74 for the largest f32.
"""
_SIN = (
    -0.1666666716337204,
    0.008333329111337662,
    -0.00019839330343529582,
    2.7182743451703573e-06,
)
"""Coefficients of (sin r - r) / r^3 in powers of r^2."""
_COS = (0.0416666679084301, -0.0013888883404433727, 2.4799515813356265e-05, -2.720989016324893e-07)
"""Coefficients of (cos r - 1 + r^2/2) / r^4 in powers of r^2."""


def _reduce(b: FloatBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return n as i32, and r in [-pi/4, pi/4]."""
    wide = b.widen(x)
    shifted = b.add(b.mul(wide, _TWO_OVER_PI), _ROUND)
    whole = b.sub(shifted, _ROUND)
    rest = b.fma(whole, -_HALF_PI_HIGH, wide)
    rest = b.fma(whole, -_HALF_PI_LOW, rest)
    near = _low_bits(b, shifted), b.narrow(rest)
    if _is_half(x):
        return near
    is_far = b.compare("oge", b.absolute(x), 2.0**30 if b.fused else 2.0**20)
    any_far = is_far
    if b.shape is not None:
        any_far = b.add_op(vector_.ReductionOp(is_far, vector.CombiningKindFlag.OR))
    then = replace(b, ops=[], constants=PureValues())
    far = _reduce_far(then, wide)
    chosen = [then.select(is_far, *each) for each in zip(far, near, strict=True)]
    types = [value.type for value in near]
    is_some = Region(Block([*then.ops, scf.YieldOp(*chosen)]))
    branch = scf.IfOp(any_far, types, is_some, Region(Block([scf.YieldOp(*near)])))
    b.add_op(branch)
    return branch.results[0], branch.results[1]


def _reduce_far(b: FloatBuilder, wide: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Reduce any f32, given in f64.

    Products with parts of 2/pi are reduced modulo 4, and whole quadrants are split off their sum at
    each step, so that only bits below those of the remaining fraction are rounded.
    """
    quadrant = rest = b.constant(0.0, f64)
    for index, part in enumerate(_TWO_OVER_PI_BITS, 1):
        product = b.mul(wide, part * 2.0 ** (-29 * index))
        turns = b.add_op(math.RoundEvenOp(b.mul(product, 0.25)))
        rest = b.add(rest, b.sub(product, b.mul(turns, 4.0)))
        whole = b.add_op(math.RoundEvenOp(rest))
        rest, quadrant = b.sub(rest, whole), b.add(quadrant, whole)
    return _low_bits(b, b.add(quadrant, _ROUND)), b.narrow(b.mul(rest, _HALF_PI))


def _low_bits(b: FloatBuilder, shifted: SSAValue) -> SSAValue:
    """Return the low bits of an integer to which `_ROUND` was added, as i32."""
    bits = b.add_op(arith.BitcastOp(shifted, b.type_of(i64)))
    return b.add_op(arith_.TruncIOp(bits, b.type_of(i32)))


def _is_half(x: SSAValue) -> bool:
    """Whether a value is a widened f16, which is always in the near range."""
    source = x.owner.input if isinstance(x.owner, arith.ExtFOp) else x
    return isinstance(get_element_type_or_self(source.type), Float16Type)


def _wave(b: FloatBuilder, quadrant: SSAValue, rest: SSAValue) -> SSAValue:
    """Return sin(quadrant pi/2 + rest)."""
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
    """Expand sin within 1.5 ulp; NaN for infinities."""
    quadrant, rest = _reduce(b, x)
    # The sum of -0.0 and a product of opposite sign is 0.0.
    return b.select(b.compare("oeq", x, 0.0), x, _wave(b, quadrant, rest))


@expands(math.CosOp)
def expand_cos(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand cos within 1.5 ulp; NaN for infinities."""
    quadrant, rest = _reduce(b, x)
    return _wave(b, b.add_bits(quadrant, b.integer(1)), rest)
