"""How far a candidate's outputs are from the right ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.tuner.measure.values import is_float
from tcopt.tuner.measure.workload import Workload

Array = NDArray[Any]

_STEP_SHARE = 5e-3
"""The part of the elements that may be a step off, where values become whole numbers."""

_STEP = 2e-2


@dataclass(frozen=True)
class Error:
    """What is wrong with an output.

    Attributes:
        share: the largest error, as a part of the expected values' magnitude; infinite where
            one side alone is no finite number.
        excess: the largest error, as a multiple of what is accepted; up to 1 is right.
        text: which element, for people.
    """

    share: float
    excess: float
    text: str


def output_error(actual: Array, expected: Array, workload: Workload, least_share: float) -> Error:
    """How far an output is off.

    Args:
        expected: may be of a more precise type.
        least_share: of the magnitude, accepted whatever the workload says.
    """
    if not is_float(actual.dtype):
        return _integer_error(actual, expected, workload)
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(a - e)
    error[(a == e) | (np.isnan(a) & np.isnan(e))] = 0.0
    error[np.isnan(error)] = np.inf
    scale = float(np.abs(e[np.isfinite(e)]).max(initial=0.0))
    allowed = max(workload.rtol, least_share) * scale + workload.atol
    worst = float(error.max(initial=0.0))
    if worst <= allowed or _is_step(error > allowed, worst, _STEP * scale, workload):
        return Error(worst / (scale or 1.0), min(worst / allowed, 1.0), "")
    return Error(worst / (scale or 1.0), worst / allowed, _describe(a, e, error, allowed))


def _integer_error(actual: Array, expected: Array, workload: Workload) -> Error:
    wrong = actual != expected
    if not wrong.any():
        return Error(0.0, 0.0, "")
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    error = np.abs(a - e)
    if _is_step(wrong, float(error.max()), 1.0, workload):
        return Error(0.0, 1.0, "")
    return Error(np.inf, np.inf, _describe(a, e, error, 0.0))


def _is_step(wrong: NDArray[np.bool_], worst: float, step: float, workload: Workload) -> bool:
    few = np.count_nonzero(wrong) <= max(1.0, _STEP_SHARE * wrong.size)
    return workload.rounds and bool(few) and worst <= step


def _describe(a: Array, e: Array, error: Array, allowed: float) -> str:
    place = np.unravel_index(int(np.argmax(error)), error.shape)
    count = int(np.count_nonzero(error > allowed))
    where = ", ".join(str(int(i)) for i in place)
    return (
        f"{float(a[place]):.7g} at [{where}] where {float(e[place]):.7g} was expected, "
        f"{count} of {error.size} elements are off by more than {allowed:.2g}"
    )
