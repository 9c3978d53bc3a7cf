"""Functions of elementwise operators that numpy lacks, on arrays and on te expressions.

Those annotated with arrays accept both, as numpy's own functions do. The others have two formulas:
numpy's is the reference that compiled code is tested against, and te's is fast in the element type,
or one operation of the te level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcopt.dialects.graph.core.types import Array
from tcopt.dialects.te import api as te

_TANH_SOFTPLUS_IS_ONE = 20.0

# Chebyshev coefficients of erfc after W. J. Press et al., Numerical Recipes, section 6.2.2.
_ERFC_COEFFICIENTS = (
    -1.3026537197817094,
    6.4196979235649026e-1,
    1.9476473204185836e-2,
    -9.561514786808631e-3,
    -9.46595344482036e-4,
    3.66839497852761e-4,
    4.2523324806907e-5,
    -2.0278578112534e-5,
    -1.624290004647e-6,
    1.303655835580e-6,
    1.5626441722e-8,
    -8.5238095915e-8,
    6.529054439e-9,
    5.059343495e-9,
    -9.91364156e-10,
    -2.27365122e-10,
    9.6467911e-11,
    2.394038e-12,
    -6.886027e-12,
    8.94487e-13,
    3.13092e-13,
    -1.12708e-13,
    3.81e-16,
    7.106e-15,
    -1.523e-15,
    -9.4e-17,
    1.21e-16,
    -2.8e-17,
)


def erf(x: Any) -> Any:
    """Return the error function."""
    return te.erf(x) if isinstance(x, te.Expr) else _erf(x)


def _erf(x: Array) -> Array:
    """Return the error function to a relative accuracy of 5e-14 in f64, in the dtype of x."""
    magnitude = np.abs(x).astype(np.float64)
    t = 2.0 / (2.0 + magnitude)
    y = 4.0 * t - 2.0
    d = np.zeros_like(y)
    dd = np.zeros_like(y)
    for coefficient in _ERFC_COEFFICIENTS[:0:-1]:
        d, dd = y * d - dd + coefficient, d
    exponent = -magnitude * magnitude + 0.5 * (_ERFC_COEFFICIENTS[0] + y * d) - dd
    # Near zero 1 - erfc cancels; the Maclaurin series is exact there.
    small = np.minimum(magnitude, 0.02)
    square = small * small
    series = small * (1 - square / 3 + square**2 / 10 - square**3 / 42 + square**4 / 216)
    series = series * 1.1283791670955126
    value = np.where(magnitude < 0.02, series, 1.0 - t * np.exp(exponent))
    return np.copysign(value, x).astype(x.dtype)


def rsqrt(x: Any) -> Any:
    """Return one over the square root."""
    return te.rsqrt(x) if isinstance(x, te.Expr) else 1 / np.sqrt(x)


def sign(x: Any) -> Any:
    """Return -1, 0 or 1; nan stays nan."""
    if not isinstance(x, te.Expr):
        return np.sign(x)
    zero, one = te.const(0, x.dtype), te.const(1, x.dtype)
    # The absolute value of the remaining cases: 0.0 for either zero, and nan.
    return te.select(x > zero, one, te.select(x < zero, zero - one, abs(x)))


def constant_like(x: Any, value: float) -> Any:
    """Return a number in the element type of x."""
    return te.const(value, x.dtype) if isinstance(x, te.Expr) else x.dtype.type(value)


def clip01(x: Array) -> Array:
    """Return x clamped to [0, 1]."""
    return np.minimum(np.maximum(x, 0), 1)


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def elu(x: Array, alpha: float) -> Array:
    """Return x where x >= 0, alpha * (exp(x) - 1) elsewhere."""
    return np.where(x >= 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1))


def prelu(x: Array, slope: Array) -> Array:
    """Return x where x >= 0, x * slope elsewhere."""
    return np.where(x >= 0, x, x * slope)


def softplus(x: Any) -> Any:
    """Return log(1 + exp(x)) without overflow, with the accuracy of exp where the result is
    small."""
    if not isinstance(x, te.Expr):
        return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    power = te.exp(0 - abs(x))
    total = 1 + power
    # Add the rounding error of the sum back.
    lost = (power - (total - 1)) / total
    return te.maximum(x, 0) + (te.log(total) + lost)


def tanh_softplus(x: Any) -> Any:
    """Return tanh(log(1 + e)) for e = exp(x).

    te computes n / (n + 2) for n = e * (e + 2), without cancellation, so results near zero are
    accurate. For x >= 20 the result is 1, in f64 too.
    """
    if not isinstance(x, te.Expr):
        return np.tanh(softplus(x))
    power = te.exp(te.minimum(x, _TANH_SOFTPLUS_IS_ONE))
    n = power * (power + 2)
    return n / (n + 2)


def power(x: Any, exponent: Any) -> Any:
    """Return x to the power of the exponent; integers are computed in f64."""
    if isinstance(x, te.Expr):
        return te.pow(x, exponent)
    if np.issubdtype(x.dtype, np.floating):
        return np.power(x, exponent)
    return np.power(x.astype(np.float64), exponent.astype(np.float64))


def divide(a: Any, b: Any) -> Any:
    """Return a / b; integers round towards zero, and an integer divided by zero is zero."""
    return a / b if isinstance(a, te.Expr) else _truncated_division(a, b)


def _truncated_division(a: Array, b: Array) -> Array:
    if not np.issubdtype(a.dtype, np.integer):
        return a / b
    quotient = np.abs(a) // np.where(b == 0, 1, np.abs(b))
    return np.where((a < 0) != (b < 0), -quotient, quotient) * (b != 0)


def saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Convert floats to integers, rounding towards zero and saturating; nan becomes 0."""
    limits = np.iinfo(dtype)
    # f64 represents every narrower float, the lower limit, and the upper one plus 1.
    wide = np.nan_to_num(x.astype(np.float64), nan=0, posinf=np.inf, neginf=-np.inf)
    above, below = wide >= float(limits.max) + 1, wide <= float(limits.min)
    inside = np.where(above | below, 0, wide).astype(dtype)
    return np.where(above, limits.max, np.where(below, limits.min, inside)).astype(dtype)
