"""Fair timing of several sides in one process: interleaved, in short bursts.

Disturbances of the machine then affect all sides. A burst begins with untimed runs, so that each
side finds its data in cache and its threads awake, as in a server under load. After a burst, the
process waits until it uses no CPU time: runtimes let their threads spin for a while after a run,
tens of milliseconds in onnxruntime, and with few cores such a thread would slow down the next side.

On a virtual machine, two cores may be two threads of one core for seconds at a time, and then each
is half as fast. Medians over all bursts may then combine a fast period of one side with a slow one
of the other, so sides are compared burst by burst: `speed`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from statistics import median

BURST_S = 0.02
"""Approximate duration of a burst; at least two runs."""
_MOST_RUNS = 50
_UNTIMED = 0.25
_LONGEST_PAUSE_S = 0.5
_STEP_S = 0.02
"""Several ticks of the system's clock, as some systems update a running thread's CPU time only
then.
"""
_IDLE = 0.1


@dataclass(frozen=True)
class Times:
    """Seconds of individual runs by burst, in the order in which they ran."""

    bursts: tuple[tuple[float, ...], ...]

    @property
    def seconds(self) -> tuple[float, ...]:
        """Seconds of the runs of all bursts."""
        return tuple(taken for burst in self.bursts for taken in burst)

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def least(self) -> float:
        return min(self.seconds)


def speed(ours: Times, theirs: Times) -> float:
    """Return the speedup of ours over theirs, as the median of the rounds' ratios."""
    rounds = zip(ours.bursts, theirs.bursts, strict=True)
    return median([median(other) / median(own) for own, other in rounds])


def take_turns(
    sides: Mapping[str, Callable[[], object]], rounds: int, burst_s: float = BURST_S
) -> dict[str, Times]:
    """Time each side in `rounds` bursts of about `burst_s` seconds.

    The order of the sides changes from round to round.
    """
    names = list(sides)
    runs = {name: _burst_length(sides[name], burst_s) for name in names}
    bursts: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            wait_until_idle()
            bursts[name].append(_burst(sides[name], runs[name]))
    wait_until_idle()
    return {name: Times(tuple(values)) for name, values in bursts.items()}


def _burst_length(run: Callable[[], object], burst_s: float) -> int:
    """Return the number of runs in a burst, by timing a second run after a warm-up."""
    run()
    start = time.perf_counter()
    run()
    taken = max(time.perf_counter() - start, 1e-7)
    return min(max(ceil(burst_s / taken), 2), _MOST_RUNS)


def _burst(run: Callable[[], object], runs: int) -> tuple[float, ...]:
    untimed = max(1, int(runs * _UNTIMED))
    times: list[float] = []
    for number in range(runs):
        start = time.perf_counter()
        run()
        if number >= untimed:
            times.append(time.perf_counter() - start)
    return tuple(times)


def wait_until_idle() -> None:
    """Sleep until no thread of this process uses CPU time, at most half a second."""
    start = time.perf_counter()
    while time.perf_counter() - start < _LONGEST_PAUSE_S:
        before, used = time.perf_counter(), time.process_time()
        time.sleep(_STEP_S)
        if time.process_time() - used < _IDLE * (time.perf_counter() - before):
            return
