"""Expansions of asin, acos and atan, with the polynomials of SLEEF 3 (sleefsp.c), by Shibata."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.ir import SSAValue

from tcopt.passes.kernel.math.polynomials.builder import FloatBuilder, expands

_HALF_PI = 1.5707963267948966
_PI_REST = -8.742277657347586e-08
"""Pi minus the nearest f32."""

_ATAN = (
    -0.333331018686294555664062,
    0.199926957488059997558594,
    -0.142027363181114196777344,
    0.106347933411598205566406,
    -0.0748900920152664184570312,
    0.0425049886107444763183594,
    -0.0159569028764963150024414,
    0.00282363896258175373077393,
)
"""Coefficients of (atan(x) / x - 1) / x^2 in x^2, for x up to 1."""

_ASIN = (
    0.1666677296,
    0.7495029271e-1,
    0.4547423869e-1,
    0.2424046025e-1,
    0.4197454825e-1,
)
"""Coefficients of (asin(x) / x - 1) / x^2 in x^2, for x up to 1/2."""


@expands(math.AtanOp)
def expand_atan(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand atan within 3 ulp; above 1 as pi/2 minus the atan of 1 / x."""
    size = b.absolute(x)
    steep = b.compare("ogt", size, 1.0)
    ratio = b.select(steep, b.div(1.0, size), size)
    square = b.mul(ratio, ratio)
    angle = b.fma(b.mul(square, b.polynomial(square, _ATAN)), ratio, ratio)
    return b.with_sign(b.select(steep, b.sub(_HALF_PI, angle), angle), x)


def _asin_part(b: FloatBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return whether |x| is below 1/2, and asin(|x|) in that case, otherwise asin(sqrt((1 - |x|) /
    2)).
    """
    size = b.absolute(x)
    small = b.compare("olt", size, 0.5)
    square = b.select(small, b.mul(size, size), b.mul(b.sub(1.0, size), 0.5))
    root = b.select(small, size, b.add_op(math.SqrtOp(square)))
    return small, b.fma(b.mul(square, b.polynomial(square, _ASIN)), root, root)


@expands(math.AsinOp)
def expand_asin(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand asin within 3 ulp; NaN outside of [-1, 1]."""
    small, angle = _asin_part(b, x)
    return b.with_sign(b.select(small, angle, b.fma(angle, -2.0, _HALF_PI)), x)


@expands(math.AcosOp)
def expand_acos(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand acos within 4 ulp; NaN outside of [-1, 1]."""
    small, angle = _asin_part(b, x)
    middle = b.add(b.sub(_HALF_PI, b.with_sign(angle, x)), 0.5 * _PI_REST)
    twice = b.add(angle, angle)
    turned = b.add(b.sub(2 * _HALF_PI, twice), _PI_REST)
    outer = b.select(b.compare("olt", x, 0.0), turned, twice)
    return b.select(small, middle, outer)
