"""Errors of a candidate's outputs relative to the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.data.closeness import Tolerance, allowed_error, is_step
from tcopt.tuner.measure.workload import Workload

Array = NDArray[Any]


@dataclass(frozen=True)
class Error:
    """The error of an output.

    Attributes:
        share: the largest error relative to the magnitude of the expected values; infinite if only
            one side is finite.
        text: description of the wrong element; empty if all are within tolerance.
    """

    share: float
    text: str = ""


def output_error(actual: Array, expected: Array, workload: Workload, least_share: float) -> Error:
    """Compare an output with the reference.

    Args:
        expected: may be of a more precise type.
        least_share: minimum relative tolerance, whatever the workload specifies.
    """
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(a - e)
    error[(actual == expected) | (np.isnan(a) & np.isnan(e))] = 0.0
    error[np.isnan(error)] = np.inf
    worst = float(error.max(initial=0.0))
    if not worst:
        return Error(0.0)
    exact = actual.dtype.kind in "iub"
    rtol, atol = max(workload.rtol, least_share), 0.0 if exact else workload.atol
    tolerance = Tolerance(rtol, atol, rounds=workload.rounds)
    allowed = np.broadcast_to(allowed_error(e, actual.dtype, tolerance), error.shape)
    wrong = error > allowed
    count = int(np.count_nonzero(wrong))
    # Values that represent an infinity do not count for the magnitude of the others.
    scale = float(allowed.min(initial=np.inf) - atol) / rtol
    share = 0.0 if exact else float(error[~wrong].max(initial=0.0)) / (scale or 1.0)
    if not count or is_step(error, e, actual.dtype, tolerance, count):
        return Error(share)
    return Error(np.inf, _describe(a, e, error, allowed, count))


def _describe(a: Array, e: Array, error: Array, allowed: Array, count: int) -> str:
    place = np.unravel_index(int(np.argmax(error - allowed)), error.shape)
    where = ", ".join(str(int(i)) for i in place)
    return (
        f"{float(a[place]):.7g} at [{where}] where {float(e[place]):.7g} was expected, "
        f"{count} of {error.size} elements are off by more than {float(allowed[place]):.2g}"
    )
