"""Comparison of tensors with a tolerance, for the check that runs each pass.

The tolerance is a fraction of the tensor's largest magnitude instead of a constant, so that tensors
of small values are checked as strictly as those of large ones. Huge values that represent infinity,
as in attention masks, do not contribute to the magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.data.strings import is_text

Array = NDArray[Any]

_HUGE = 1e4
_GAP = 1e3
_OVERFLOW = 1e30
_STEP = 2e-2
_STEP_SHARE = 5e-3


@dataclass(frozen=True)
class Tolerance:
    """Tolerance of a comparison.

    Attributes:
        rtol: relative tolerance of 32- and 64-bit floats, as a fraction of the magnitude.
        atol: absolute tolerance, added to it.
        precision: rounding error of the least precise float type used to compute the value; 32
            times as much is accepted.
        rounds: whether intermediate values were rounded to integers. Then a few elements may be one
            step off: 1 for integers, a fiftieth of the magnitude for floats.
        overflows: whether inputs are so large that floats may overflow. Then values above 1e30 and
            NaNs are not compared.
    """

    rtol: float
    atol: float = 0.0
    precision: float = 2.0**-24
    rounds: bool = False
    overflows: bool = False


def difference(
    actual: Array, expected: Array, tolerance: Tolerance, where: Array | None = None
) -> str | None:
    """Describe how a value differs from the expected one; None if it is within the tolerance.

    Args:
        where: mask of the elements to compare; by default all.
    """
    if actual.shape != expected.shape:
        return f"shape {actual.shape} where {expected.shape} was expected"
    if is_text(actual.dtype) or is_text(expected.dtype):
        count = int(np.count_nonzero(actual != expected))
        return f"{count} of {actual.size} strings differ" if count else None
    if actual.dtype == expected.dtype and _same_bytes(actual, expected):
        return None
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.array(np.abs(a - e))
    error[(a == e) | (np.isnan(a) & np.isnan(e))] = 0.0
    # A NaN or an infinity on one side only is an infinite error.
    error[np.isnan(error)] = np.inf
    if tolerance.overflows:
        fits = np.abs(e) < _OVERFLOW
        where = fits if where is None else where & fits
    if where is not None:
        error[~where] = 0.0
        e = np.where(where, e, 0.0)
    if not error.any():
        return None
    allowed = allowed_error(e, expected.dtype, tolerance)
    wrong = error > allowed
    count = int(np.count_nonzero(wrong))
    if not count or is_step(error, e, expected.dtype, tolerance, count):
        return None
    with np.errstate(over="ignore"):
        share = error / np.maximum(allowed, np.finfo(np.float64).tiny)
    worst = np.unravel_index(int(np.argmax(share)), share.shape)
    place = ", ".join(str(int(i)) for i in worst)
    limit = float(np.broadcast_to(allowed, error.shape)[worst])
    return (
        f"max difference {float(error[worst]):.3g} at [{place}]: {float(a[worst]):.7g} where "
        f"{float(expected[worst]):.7g} was expected, beyond {limit:.3g}; {count} of {error.size} "
        f"elements differ"
    )


def _same_bytes(a: Array, b: Array) -> bool:
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    return a.tobytes() == b.tobytes()


def allowed_error(e: Array, dtype: np.dtype[Any], tolerance: Tolerance) -> Array:
    """Return the maximum error of each element of an expected value, or one for all of them.

    Args:
        e: the value as f64; `dtype`: its original type.
    """
    if dtype.kind in "iub":
        return np.asarray(tolerance.atol)
    magnitude = np.abs(np.where(np.isfinite(e), e, 0.0))
    rtol = max(tolerance.rtol, 32 * tolerance.precision)
    huge = magnitude >= _HUGE
    rest = float(magnitude[~huge].max(initial=0.0))
    scale = float(magnitude.max(initial=0.0))
    if huge.any() and rest and float(magnitude[huge].min()) >= _GAP * rest:
        return tolerance.atol + rtol * np.where(huge, magnitude, rest)
    return np.asarray(tolerance.atol + rtol * scale)


def is_step(error: Array, e: Array, dtype: np.dtype[Any], tolerance: Tolerance, count: int) -> bool:
    """Whether errors are explained by rounding of intermediate values to integers."""
    if not tolerance.rounds or count > max(1.0, _STEP_SHARE * error.size):
        return False
    step = 1.0 if dtype.kind in "iu" else _STEP * float(np.abs(e[np.isfinite(e)]).max(initial=0.0))
    return bool(error.max() <= step)
