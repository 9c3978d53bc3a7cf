"""Acceptance of a tuned model: only if it is significantly faster, with equal results.

Both models run interleaved in one process. Each round yields a speedup; its confidence interval is
computed by bootstrap, and all of it must be above a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.support.data.differences import compare
from tcopt.support.processes.turns import BURST_S, Times, take_turns

Array = NDArray[Any]

ROUNDS = 12
"""Minimum number of interleaved rounds."""

PATIENCE = 4
"""Factor by which the number of rounds may grow if the first do not settle acceptance."""

FASTER = 1.01
"""Lower bound of the speedup's whole interval for accepting a tuned model."""

_RESAMPLES = 2000
_INTERVAL = 0.95


@dataclass(frozen=True)
class Verdict:
    """Comparison of a tuned model with the untuned one.

    Attributes:
        speed: its speedup; `low`, `high`: the 95 % interval.
        before_ms, after_ms: medians of a run.
        rounds: number of interleaved rounds; 0 if times are simulated and exact.
        difference: description of a wrong output; empty if all are within tolerance.
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
        """Whether the tuned model is significantly faster, and correct."""
        return not self.difference and self.low > (FASTER if self.rounds else 1.0)

    @property
    def interval(self) -> str:
        """The confidence interval as text."""
        if not self.rounds:
            return "exact, by cycles of the accelerator"
        return f"{self.low:.3f}-{self.high:.3f}, {self.rounds} interleaved rounds"

    @property
    def reason(self) -> str:
        """The reason for the verdict on a tuned model, briefly."""
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
        untuned, tuned: run the model on the same inputs, and return its outputs.
        rounds: number of interleaved rounds.
        patience: factor by which that may grow if the result is unclear.
        rtol, atol: accepted differences, relative to an output's range and absolute.
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
    """Measure speedups by rounds, with more rounds if the first do not decide whether it is above
    FASTER.

    There is at most one extension, as repeated tests would find differences that do not exist.

    Args:
        turns: runs more rounds, and returns the speedups of all rounds so far.
        rounds: the initial number; up to `patience` times as many in total.
    """
    found = turns(rounds)
    _, low, high = interval(found)
    return turns(rounds * (patience - 1)) if patience > 1 and low <= FASTER < high else found


def ratios(ours: Times, theirs: Times) -> list[float]:
    """Return the speedup of ours in each round."""
    rounds = zip(ours.bursts, theirs.bursts, strict=True)
    return [median(other) / median(own) for own, other in rounds]


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """Return the median of some ratios, and its 95 % interval by bootstrap."""
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
    """Describe the first output that is not within tolerance; empty if all are."""
    for number, (before, after) in enumerate(zip(untuned, tuned, strict=True)):
        if before.shape != after.shape:
            return f"output {number} has shape {after.shape} instead of {before.shape}"
        found = compare(f"output {number}", after, before, rtol=rtol, atol=atol)
        if not found.passed:
            return f"output {number}: {found.summary()}"
    return ""
