"""Comparison of results with expected values, within a tolerance.

A difference is accepted if |actual - expected| <= atol + rtol * scale, where scale is the range of
the expected values (the largest minus the smallest), or their largest magnitude if they are all
equal. Elements near zero then need no special tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.data.strings import is_text

Array = NDArray[Any]


@dataclass(frozen=True)
class Accuracy:
    """The difference of one output from its expected value.

    `max_abs`, `mean_abs`, `p99_abs` are absolute errors; `max_rel`, `mean_rel`, `p99_rel`
    the same divided by the magnitude of the expected element (where that is not zero).
    `worst` is the index of the largest error, `least_rtol` the smallest rtol that passes.
    """

    name: str
    shape: tuple[int, ...]
    scale: float
    max_abs: float
    mean_abs: float
    p99_abs: float
    max_rel: float
    mean_rel: float
    p99_rel: float
    worst: tuple[int, ...]
    actual: float
    expected: float
    least_rtol: float
    passed: bool

    def summary(self) -> str:
        """Describe the largest error in one line: its value, index, and the expected element."""
        place = f"[{', '.join(map(str, self.worst))}]"
        return (
            f"max difference {self.max_abs:.3g} at {place}: {self.actual:.7g} "
            f"where {self.expected:.7g} was expected"
        )


def compare(name: str, actual: Array, expected: Array, *, rtol: float, atol: float) -> Accuracy:
    """Compare one output with its expected value. Equal infinities, and NaNs in both, count as
    equal.

    Raises:
        ValueError: the shapes differ.
    """
    if actual.shape != expected.shape:
        raise ValueError(f"shape {actual.shape} where {expected.shape} was expected")
    if is_text(actual.dtype) or is_text(expected.dtype):
        # The error of a string is 0 or 1.
        actual, expected = np.asarray(actual != expected), np.zeros(expected.shape)
    a = _as_float(actual)
    e = _as_float(expected)
    error = _difference(a, e)
    finite = e[np.isfinite(e)]
    scale = _scale(finite)
    position = int(np.argmax(error)) if error.size else 0
    max_abs = float(error.flat[position]) if error.size else 0.0
    magnitude = np.abs(np.where(np.isfinite(e), e, 0.0))
    relative = error[magnitude > 0] / magnitude[magnitude > 0]
    worst = tuple(int(i) for i in np.unravel_index(position, a.shape)) if error.size else ()
    least = max(max_abs - atol, 0.0) / scale if scale > 0 else (0.0 if max_abs <= atol else np.inf)
    return Accuracy(
        name=name,
        shape=tuple(actual.shape),
        scale=scale,
        max_abs=max_abs,
        mean_abs=_mean(error),
        p99_abs=_p99(error),
        max_rel=float(relative.max()) if relative.size else 0.0,
        mean_rel=_mean(relative),
        p99_rel=_p99(relative),
        worst=worst,
        actual=float(a[worst]) if error.size else 0.0,
        expected=float(e[worst]) if error.size else 0.0,
        least_rtol=float(least),
        passed=max_abs <= atol + rtol * scale,
    )


def report(results: Sequence[Accuracy], *, rtol: float, atol: float) -> str:
    """Describe every output, and whether it passed."""
    lines: list[str] = []
    for r in results:
        shape = "x".join(map(str, r.shape)) or "scalar"
        lines += [
            f"{r.name} ({shape}): {'ok' if r.passed else 'DIFFERS'}",
            f"  absolute error: max {r.max_abs:.3g}, mean {r.mean_abs:.3g}, p99 {r.p99_abs:.3g}",
            f"  relative error: max {r.max_rel:.3g}, mean {r.mean_rel:.3g}, p99 {r.p99_rel:.3g}",
            f"  error relative to the range: {_parts(r)}",
            f"  {r.summary()}",
            f"  range of the expected values {r.scale:.4g}; "
            f"passes from rtol {r.least_rtol:.3g} (given rtol {rtol:g}, atol {atol:g})",
        ]
    return "\n".join(lines)


def _parts(r: Accuracy) -> str:
    errors = (("max", r.max_abs), ("mean", r.mean_abs), ("p99", r.p99_abs))
    scale = r.scale or 1.0
    return ", ".join(f"{name} {error / scale:.3g}" for name, error in errors)


def _as_float(array: Array) -> Array:
    return array.astype(np.float64)


def _difference(a: Array, e: Array) -> Array:
    with np.errstate(invalid="ignore"):
        error = np.abs(a - e)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    error = np.where(same, 0.0, error)
    # A NaN or an infinity on one side only is an infinite error.
    return np.where(np.isnan(error), np.inf, error)


def _scale(finite: Array) -> float:
    if not finite.size:
        return 0.0
    spread = float(finite.max() - finite.min())
    return spread or float(np.abs(finite).max())


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else 0.0


def _p99(values: Array) -> float:
    if not values.size:
        return 0.0
    position = int(0.99 * (values.size - 1))
    return float(np.partition(values.ravel(), position)[position])
