"""Calibration methods, which select the range of a tensor's values that integers cover.

A method maps a distribution of values to the bounds of a range; values outside are clipped. Use
`@calibration_method` to register another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.quantization.parameters import Integer, parameters_for
from tcopt.support.errors import InputError
from tcopt.support.registries.registration import Registry

Array = NDArray[Any]
_BINS = 2048
_SHARES = tuple(float(n) for n in np.linspace(0.02, 1.0, 99))
"""Fractions of a bound that the search tries."""


@dataclass(frozen=True)
class Distribution:
    """Histogram of the values of a tensor.

    Attributes:
        low, high: minimum and maximum.
        counts: number of values in each of the equally wide bins between them.
    """

    low: float
    high: float
    counts: Array

    @property
    def centres(self) -> Array:
        """Centre of each bin."""
        width = (self.high - self.low) / len(self.counts)
        return np.asarray(self.low + width * (np.arange(len(self.counts)) + 0.5))

    def quantile(self, part: float) -> float:
        """Return a quantile of the values, interpolated within bins."""
        total = np.cumsum(self.counts)
        if not total[-1]:
            return self.low
        edges = np.linspace(self.low, self.high, len(self.counts) + 1)
        sums = np.concatenate([np.zeros(1), total])
        return float(np.interp(float(part * total[-1]), sums, edges))


def merged(distributions: list[Distribution], bins: int = _BINS) -> Distribution:
    """Merge histograms of several batches; each bin is counted at its centre."""
    low = min(d.low for d in distributions)
    high = max(d.high for d in distributions)
    counts = np.zeros(bins, np.float64)
    span = high - low
    for each in distributions:
        places = (each.centres - low) * (bins / span) if span > 0 else np.zeros(len(each.counts))
        places = np.clip(places, 0, bins - 1).astype(np.int64)
        counts += np.bincount(places, each.counts, bins)
    return Distribution(low, high, counts)


@dataclass(frozen=True)
class RangeSettings:
    """Settings of a calibration method.

    Attributes:
        integer, symmetric, power_of_two: see `parameters_for`.
        percentile: percentage of the values that the range must cover.
    """

    integer: Integer = Integer.UINT8
    symmetric: bool = False
    power_of_two: bool = False
    percentile: float = 99.99


Method = Callable[[Distribution, RangeSettings], tuple[float, float]]
METHODS: Registry[str, Method] = Registry("calibration method")


def calibration_method(name: str) -> Callable[[Method], Method]:
    """Register a calibration method."""

    def register(method: Method) -> Method:
        METHODS[name] = method
        return method

    return register


def find_method(name: str) -> Method:
    """Return a method by name.

    Raises:
        InputError: no method has this name.
    """
    if name not in METHODS:
        hint = f"it is one of {', '.join([*sorted(METHODS), 'best'])}"
        raise InputError(f"there is no calibration method '{name}'", hint=hint)
    return METHODS[name]


@calibration_method("minmax")
def min_max(values: Distribution, settings: RangeSettings) -> tuple[float, float]:
    """Use the range from the minimum to the maximum."""
    return values.low, values.high


@calibration_method("percentile")
def percentile(values: Distribution, settings: RangeSettings) -> tuple[float, float]:
    """Clip the values beyond a percentile, an equal share at both ends."""
    beyond = (1 - settings.percentile / 100) / 2
    if settings.symmetric or values.low >= 0 or values.high <= 0:
        beyond *= 2
    low = values.low if values.low >= 0 else values.quantile(beyond)
    high = values.high if values.high <= 0 else values.quantile(1 - beyond)
    return low, high


@calibration_method("mse")
def least_squares(values: Distribution, settings: RangeSettings) -> tuple[float, float]:
    """Minimise the mean squared quantisation error."""
    low, high = min(values.low, 0.0), max(values.high, 0.0)
    return _searched(low, high, lambda a, b: squared_error(values, a, b, settings))


def _searched(
    low: float, high: float, score: Callable[[float, float], float]
) -> tuple[float, float]:
    """Search for the range with the lowest score, moving both bounds or either to zero."""
    best = score(low, high)
    for low_moves, high_moves in ((True, True), (True, False), (False, True)):
        first = low, high
        for share in _SHARES:
            ends = first[0] * (share if low_moves else 1), first[1] * (share if high_moves else 1)
            found = score(*ends)
            if found < best:
                best, (low, high) = found, ends
    return low, high


def squared_error(values: Distribution, low: float, high: float, settings: RangeSettings) -> float:
    """Return the mean squared error of quantising to a range."""
    made = parameters_for(
        low,
        high,
        settings.integer,
        symmetric=settings.symmetric,
        power_of_two=settings.power_of_two,
    )
    centres = values.centres
    scale, zero = float(made.scale), int(made.zero)
    least, most = made.limits
    rounded = (np.clip(np.rint(centres / scale) + zero, least, most) - zero) * scale
    # Each bin is represented by its centre.
    return float(np.sum(values.counts * (rounded - centres) ** 2) / max(values.counts.sum(), 1))


@calibration_method("entropy")
def entropy(values: Distribution, settings: RangeSettings) -> tuple[float, float]:
    """Minimise the information lost by quantisation.

    Clipped values count at the bounds of the range. The range minimises the Kullback-Leibler
    divergence from the distribution in 256 steps, as in TensorRT's calibration.
    """
    low, high = min(values.low, 0.0), max(values.high, 0.0)
    if settings.symmetric:
        high = max(-low, high)
        low = -high
    if high <= low:
        return low, high
    centres = values.centres
    return _searched(low, high, lambda a, b: _divergence(values, centres, a, b))


def _divergence(values: Distribution, centres: Array, low: float, high: float) -> float:
    inside = (centres >= low) & (centres <= high)
    kept = values.counts[inside]
    if not kept.sum():
        return np.inf
    reference = kept.astype(np.float64).copy()
    reference[0] += values.counts[centres < low].sum()
    reference[-1] += values.counts[centres > high].sum()
    steps = np.minimum((centres[inside] - low) * (256 / (high - low)), 255).astype(np.int64)
    used = kept > 0
    sums = np.bincount(steps, kept, 256)
    places = np.bincount(steps, used, 256)
    shared = np.where(used, sums[steps] / np.maximum(places[steps], 1), 0.0)
    p, q = reference / reference.sum(), shared / shared.sum()
    some = p > 0
    # A small probability replaces empty bins of the quantised distribution.
    found = np.sum(p[some] * np.log(p[some] / np.maximum(q[some], 1e-9)))
    # A small sample deviates from its distribution by chance, the more so the more bins share a
    # step. The expected divergence from that alone is half the number of excess bins over the
    # sample size.
    by_chance = (used.sum() - np.count_nonzero(places)) / (2 * kept.sum())
    return max(float(found - by_chance), 0.0)


def chosen_range(method: str, values: Distribution, settings: RangeSettings) -> tuple[float, float]:
    """Return a method's range; for power-of-two scales the better of it and its half."""
    low, high = find_method(method)(values, settings)
    if not settings.power_of_two or method == "minmax":
        return low, high
    half = low / 2, high / 2
    errors = [squared_error(values, *ends, settings) for ends in ((low, high), half)]
    return half if errors[1] < errors[0] else (low, high)
