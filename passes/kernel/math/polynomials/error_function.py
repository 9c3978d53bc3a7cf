"""Expansion of erf in two pieces: a polynomial up to 1, and above 1 one minus the fourth power of
another.

    erf(x) = x + x p(x^2)           |x| <= 1
    erf(t) = 1 - q(t)^4              t > 1

The fourth root of 1 - erf falls slowly enough for a polynomial of low degree, so no exponential is
needed. Both are minimax approximations: the first of the relative, the second of the absolute error
of the result.
"""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.ir import SSAValue

from tcopt.passes.kernel.math.polynomials.builder import FloatBuilder, expands

_BORDER = 1.0
_CENTRE = (
    0.12837912142276764,
    -0.3761235475540161,
    0.112804114818573,
    -0.02671770751476288,
    0.004924789071083069,
    -0.0005660153110511601,
)
"""Coefficients of erf(x) / x - 1 in powers of x^2, within 4e-8."""
_ROOT = (
    0.9998553991317749,
    -0.28095483779907227,
    -0.12322767078876495,
    0.022932788357138634,
    0.009435507468879223,
    0.006311827339231968,
    -0.0061113787814974785,
    0.0017409054562449455,
    -0.00022436067229136825,
    1.1342026482452638e-05,
)
"""Coefficients of the fourth root of 1 - erf(t) for t in [1, 4]; its power is within 5e-10."""


@expands(math.ErfOp)
def expand_erf(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """Expand erf within 2 ulp; 1 and -1 for infinities."""
    size = b.absolute(x)
    square = b.product(x, x)
    centre = b.fma(b.polynomial(square, _CENTRE), x, x)
    # Beyond 4 the result is 1, but the polynomial would increase again.
    bounded = b.minimum(size, 4.0)
    root = b.polynomial_by_pairs(bounded, b.product(bounded, bounded), _ROOT)
    power = b.product(root, root)
    # The fourth power minus 1: the sign is taken from the argument anyway.
    outer = b.with_sign(b.fma(power, power, -1.0), x)
    return b.select(b.compare("ogt", size, _BORDER), outer, centre)
