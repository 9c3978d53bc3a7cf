"""erf, in two pieces: a polynomial below 0.93, an exponential of one above.

Coefficients: N. Juffa's published single-precision erff.
"""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.ir import SSAValue

from tcopt.passes.kernel.polynomials.builder import FloatBuilder, expands
from tcopt.passes.kernel.polynomials.exponential import one_minus_exp_of_minus

_BORDER = 475 / 512
_CENTRE = (
    1.28379166e-1,
    -3.76125336e-1,
    1.12819925e-1,
    -2.67681349e-2,
    4.99119423e-3,
    -5.96761703e-4,
)
"""erf(x) / x - 1 in powers of x^2."""
_OUTER = (
    1.28717512e-1,
    6.34846687e-1,
    1.06777877e-1,
    -2.42546219e-2,
    3.88396438e-3,
    -3.83197126e-4,
    1.72853470e-5,
)
"""-log(1 - erf(t)) / t - 1 in powers of t."""


@expands(math.ErfOp)
def expand_erf(b: FloatBuilder, x: SSAValue) -> SSAValue:
    """erf within 2 ulp; 1 and -1 for infinities."""
    size = b.absolute(x)
    square = b.product(x, x)
    centre = b.fma(b.polynomial(square, _CENTRE), x, x)
    # Beyond 4 the result is 1, and the polynomial would turn up again.
    bounded = b.minimum(size, 4.0)
    outer = b.polynomial_by_pairs(bounded, b.product(bounded, bounded), _OUTER)
    exponent = b.fma(outer, bounded, bounded)
    outer = b.with_sign(one_minus_exp_of_minus(b, exponent), x)
    return b.select(b.compare("ogt", size, _BORDER), outer, centre)
