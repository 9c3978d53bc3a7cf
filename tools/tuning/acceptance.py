"""Whether a tuned model is kept: only if it is faster beyond noise, and says the same.

Both models run in one process and take turns. Each round says how many times as fast the tuned one
is; the interval of that is drawn by bootstrap, and has to lie above a threshold as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.tools.benchmarking.turns import BURST_S, Times, take_turns
from tcopt.tools.results.accuracy import compare

Array = NDArray[Any]

ROUNDS = 12
"""Turns of each side at least."""

PATIENCE = 4
"""How many times as many, where the first leave it open whether a tuned model is kept."""

FASTER = 1.01
"""A tuned model is kept if all of the interval of its speed is above."""

_RESAMPLES = 2000
_INTERVAL = 0.95


@dataclass(frozen=True)
class Verdict:
    """How a tuned model compares.

    Attributes:
        speed: how many times as fast it is; `low`, `high`: the interval of that at 95 %.
        before_ms, after_ms: medians of a run.
        rounds: of turns; none where times are a simulator's, and exact.
        difference: what is not equal, for people; empty where all outputs are within tolerance.
    """

    speed: float
    low: float
    high: float
    before_ms: float
    after_ms: float
    rounds: int
    difference: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the tuned model is faster beyond noise, and right."""
        return not self.difference and self.low > (FASTER if self.rounds else 1.0)

    @property
    def interval(self) -> str:
        """How sure the speed is, for people."""
        if not self.rounds:
            return "exact, by cycles of the accelerator"
        return f"{self.low:.3f}-{self.high:.3f}, {self.rounds} rounds in turns"

    @property
    def reason(self) -> str:
        """Why, in few words."""
        if self.difference:
            return f"outputs differ: {self.difference}"
        if self.accepted:
            how = "beyond noise" if self.rounds else "by cycles"
            return f"faster {how}, outputs within tolerance"
        if not self.rounds:
            return "not faster"
        return f"not faster beyond noise: all of the interval should be above {FASTER}"


def judge(
    untuned: Callable[[], Sequence[Array]],
    tuned: Callable[[], Sequence[Array]],
    *,
    rounds: int = ROUNDS,
    patience: int = 1,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    burst_s: float = BURST_S,
) -> Verdict:
    """Compare a tuned model with the untuned one.

    Args:
        untuned, tuned: run the model on the same inputs, and give its outputs.
        rounds: of turns.
        patience: how many times as many at most, where it is not clear.
        rtol, atol: accepted differences, as a part of an output's range and beside it.
    """
    difference = find_difference(untuned(), tuned(), rtol, atol)
    sides = {"untuned": untuned, "tuned": tuned}
    times = {name: Times(()) for name in sides}

    def turns(count: int) -> list[float]:
        for name, more in take_turns(sides, count, burst_s).items():
            times[name] = Times(times[name].bursts + more.bursts)
        return ratios(times["tuned"], times["untuned"])

    speed, low, high = interval(until_clear(turns, max(rounds, 1), patience))
    before, after = (times[name].median * 1e3 for name in sides)
    return Verdict(speed, low, high, before, after, len(times["tuned"].bursts), difference)


def until_clear(turns: Callable[[int], list[float]], rounds: int, patience: int) -> list[float]:
    """Speeds by rounds, of more of them where the first leave it open if they are above FASTER.

    There is one more look at most: each may be wrong, so that many would find what is not there.

    Args:
        turns: takes some rounds, and gives the speeds of all that were taken.
        rounds: at first; `patience` times as many at most.
    """
    found = turns(rounds)
    _, low, high = interval(found)
    return turns(rounds * (patience - 1)) if patience > 1 and low <= FASTER < high else found


def ratios(ours: Times, theirs: Times) -> list[float]:
    """How many times as fast ours is, by each round."""
    rounds = zip(ours.bursts, theirs.bursts, strict=True)
    return [median(other) / median(own) for own, other in rounds]


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """The median of some ratios, and its interval at 95 % by bootstrap."""
    rng = np.random.default_rng(seed)
    found = np.asarray(values, np.float64)
    drawn = found[rng.integers(0, len(found), (_RESAMPLES, len(found)))]
    medians = np.median(drawn, axis=1)
    tail = (1 - _INTERVAL) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return float(np.median(found)), float(low), float(high)


def find_difference(
    untuned: Sequence[Array], tuned: Sequence[Array], rtol: float, atol: float
) -> str:
    """The first output that is not within tolerance, for people; empty if all are."""
    for number, (before, after) in enumerate(zip(untuned, tuned, strict=True)):
        if before.shape != after.shape:
            return f"output {number} has shape {after.shape} instead of {before.shape}"
        found = compare(f"output {number}", after, before, rtol=rtol, atol=atol)
        if not found.passed:
            return f"output {number}: {found.summary()}"
    return ""
