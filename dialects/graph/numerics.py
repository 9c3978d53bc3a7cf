"""numpy implementations of functions that numpy lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcopt.dialects.graph.types import Array

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


def erf(x: Array) -> Array:
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


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def truncated_division(a: Array, b: Array) -> Array:
    """Return a / b; integers round towards zero, and an integer divided by zero is zero."""
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
