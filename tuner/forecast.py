"""Forecast the gain of further trials by extrapolating the curve of the best time so far.

The best of n trials, relative to the default's time, is modelled as

    log best(n) = floor + a * n ** -b

so that the regret vanishes as a power of the number of trials. The uncertainty of the extrapolation
comes from the bootstrap: the curve is fitted to many histories, each of which resamples the trials
of every round. With few trials a curve is unreliable, so a prior contributes the total gain of past
curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
"""Forecasts, one row for each bootstrap sample."""

EXPONENTS = np.asarray([0.2, 0.35, 0.5, 0.75, 1.0, 1.5])
"""Exponents of the number of trials that a fit may choose."""

SAMPLES = 100
"""Number of bootstrap histories."""

UNSURE = 0.6
"""Standard deviation of the logarithm of a forecast fall's error: curves have steps."""

RECENT = 0.25
"""Curves are fitted after this part of the trials, as an early step is not the current slope."""

_POINTS = 24
"""Points of a fitted curve, evenly spaced on a logarithmic scale of trials."""

_SLOWEST = 1.0
"""Upper bound of ratios to the default's time: the default is used if nothing is faster."""


@dataclass(frozen=True)
class Prior:
    """Prior knowledge about curves, from other tasks.

    Attributes:
        gain: the logarithm of the total speedup of a task.
        exponent: of the number of trials.
        weight: of the prior, in trials.
    """

    gain: float = 0.1
    exponent: float = 0.5
    weight: float = 16.0


def prior_of(histories: Sequence[Sequence[Sequence[float]]], prior: Prior | None = None) -> Prior:
    """Update a prior by the histories of past tasks, each a list of rounds of ratios."""
    prior = prior or Prior()
    gains = [prior.gain] * 2
    for rounds in histories:
        ratios = [ratio for each in rounds for ratio in each]
        if len(ratios) >= _POINTS:
            gains.append(-float(np.log(min([_SLOWEST, *ratios]))))
    return Prior(float(np.mean(gains)), prior.exponent, prior.weight)


def forecast(
    rounds: Sequence[Sequence[float]],
    more: Sequence[int],
    rng: np.random.Generator,
    prior: Prior | None = None,
    floor: float = 0.0,
) -> Samples:
    """Forecast the logarithm of the best ratio after more trials, in `SAMPLES` samples.

    Args:
        rounds: of the trials so far, in order: each trial's time relative to the default's,
            infinite if it failed.
        more: numbers of further trials.
        floor: lower bound of the ratio by the machine's limits.
    Returns:
        A row for each sample, a column for each of `more`; never above the current best.
    """
    prior = prior or Prior()
    ahead = np.asarray(more, np.float64)
    flat = np.asarray([ratio for each in rounds for ratio in each], np.float64)
    now = float(np.log(min([_SLOWEST, *flat])))
    if not len(flat):
        spread = np.exp(rng.normal(0, UNSURE, (SAMPLES, 1)))
        return -prior.gain * spread * (1 - (1 + ahead) ** -prior.exponent)
    curves = _redrawn(rounds, rng)
    trials = np.arange(1, len(flat) + 1)
    first = max(len(flat) * RECENT, 1)
    chosen = np.unique(np.geomspace(first, len(flat), min(len(flat), _POINTS)).astype(int)) - 1
    falls = _falls(curves[:, chosen], trials[chosen], len(flat) + ahead, prior, len(flat), rng)
    result = np.minimum(now + falls, now)
    if floor > 0:
        result = np.maximum(result, min(np.log(floor), now))
    return result


def _redrawn(rounds: Sequence[Sequence[float]], rng: np.random.Generator) -> Samples:
    """Return bootstrap samples of the best ratio by trial, resampled within each round."""
    parts: list[Samples] = []
    for each in rounds:
        if len(each):
            own = np.asarray(each, np.float64)
            parts.append(own[rng.integers(0, len(own), (SAMPLES, len(own)))])
    drawn = np.log(np.minimum(np.concatenate(parts, axis=1), _SLOWEST))
    return np.minimum.accumulate(drawn, axis=1)


def _falls(
    curves: Samples,
    trials: NDArray[np.int64],
    ahead: Samples,
    prior: Prior,
    count: int,
    rng: np.random.Generator,
) -> Samples:
    """Return how far each curve falls after the last trial, by its best fitting exponent.

    The prior counts as `weight` trials of a curve that falls by its gain.
    """
    share = prior.weight / (prior.weight + count)
    best_error = np.full(len(curves), np.inf)
    falls = np.zeros((len(curves), len(ahead)))
    for exponent in EXPONENTS:
        powers = trials.astype(np.float64) ** -exponent
        centred = powers - powers.mean()
        spread = float(centred @ centred)
        means = curves.mean(axis=1, keepdims=True)
        slope = (curves - means) @ centred / spread if spread else np.zeros(len(curves))
        slope = np.maximum(slope, 0)
        error = ((curves - means - slope[:, None] * centred) ** 2).sum(axis=1)
        error += 1e-4 * abs(np.log(exponent / prior.exponent))
        change = ahead**-exponent - float(count) ** -exponent
        better = error < best_error
        falls[better] = slope[better, None] * change
        best_error = np.minimum(error, best_error)
    falls *= np.exp(rng.normal(0, UNSURE, (len(curves), 1)))
    usual = prior.gain * ((1 + ahead) ** -prior.exponent - (1.0 + count) ** -prior.exponent)
    return (1 - share) * falls + share * usual
