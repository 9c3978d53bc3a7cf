"""Timing several sides fairly in one process: they take turns, in short bursts.

What disturbs the machine then disturbs all sides. A burst begins with runs that are not timed,
so that each side finds its data in cache and its threads awake, as in a server under load.
After it the process is left alone until it uses no more CPU time: runtimes let their threads
spin for a while after a run, tens of milliseconds in onnxruntime, and on few cores a thread
that spins for nobody would slow down whoever is next.

On a rented machine two cores may be two threads of one, for seconds at a time, and then each is
half as fast. Medians over all bursts may then fall into a fast time for one side and a slow one for
the other, so sides are compared burst by burst: `speed`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from statistics import median

BURST_S = 0.02
"""A burst lasts about this long, but for sides that are slower."""
_MOST_RUNS = 50
_UNTIMED = 0.25
_LONGEST_PAUSE_S = 0.5
_STEP_S = 0.02
"""Several ticks of the kernel's clock: some kernels add up a running thread's time only then."""
_IDLE = 0.1


@dataclass(frozen=True)
class Times:
    """Seconds of single runs, by bursts, in the order in which they ran."""

    bursts: tuple[tuple[float, ...], ...]

    @property
    def seconds(self) -> tuple[float, ...]:
        """Of all bursts."""
        return tuple(taken for burst in self.bursts for taken in burst)

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def least(self) -> float:
        return min(self.seconds)


def speed(ours: Times, theirs: Times) -> float:
    """How many times as fast ours is: the median of what each round says."""
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
    """How many runs make a burst, by a second run: a first one may set things up."""
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
