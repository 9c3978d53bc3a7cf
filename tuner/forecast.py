"""What more trials are likely to bring: a curve through how the best time fell so far.

The best of n trials, as a part of the default's time, is taken to follow

    log best(n) = floor + a * n ** -b

with a regret that vanishes as a power of the trials. How far it still falls is uncertain, so the
curve is drawn through many histories: those that came of drawing each round's trials anew from that
round (the bootstrap). Of few trials a curve says little; what past curves fell in all is a prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
"""For each bootstrap sample a row of forecasts."""

EXPONENTS = np.asarray([0.2, 0.35, 0.5, 0.75, 1.0, 1.5])
"""Of the trials, that a fit may find."""

SAMPLES = 100
"""Histories that are drawn."""

UNSURE = 0.6
"""By what factor a fall may be off, as a standard deviation of its logarithm: curves have steps."""

RECENT = 0.25
"""A curve is drawn through the trials behind that part of them: a step long past is not a slope."""

_POINTS = 24
"""Numbers of trials that a curve is drawn through, evenly by their logarithms."""

_SLOWEST = 1.0
"""As a part of the default's time: who finds nothing better takes the default."""


@dataclass(frozen=True)
class Prior:
    """What curves of other tasks were like.

    Attributes:
        gain: the logarithm of how many times as fast all trials together made a task.
        exponent: of their number.
        weight: as many trials as it counts.
    """

    gain: float = 0.1
    exponent: float = 0.5
    weight: float = 16.0


def prior_of(histories: Sequence[Sequence[Sequence[float]]], prior: Prior | None = None) -> Prior:
    """A prior from past tasks' histories, each with rounds of ratios; few of them change little."""
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
    """The logarithm of the best ratio after so many more trials, drawn `SAMPLES` times.

    Args:
        rounds: of the trials so far, in their order: each trial's time as a part of the default's,
            infinite for those that failed.
        more: numbers of further trials.
        floor: the best ratio that the machine's limits allow.
    Returns:
        A row for each sample, a column for each of `more`; never above what is the best already.
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
    """The best so far by trials, as if each round's had been drawn anew."""
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
    """How far each curve falls from the last trial on, by the exponent that fits it best.

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
