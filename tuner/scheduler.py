"""Choose the task of the next batch: the one with the largest gain of the model per second.

A task's value is the forecast fall of its curve in a batch, times its share of the model's run
time, divided by the seconds of a batch, as tasks differ widely in compile and run time. Time is
thus not spent on tasks with a flat curve; when all curves are flat, tuning ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tcopt.tuner.forecast import SAMPLES, Prior, Samples, forecast

LEAST_TRIALS = 30
"""Minimum number of trials of all tasks before anything is forecast."""

WORTH = 0.005
"""Tuning ends if the forecast gain is below this part of the model's time."""

UNLIKELY = 4
"""Factor by which the upper end of a forecast's interval may exceed `WORTH` when tuning ends."""

LEAST_OF_TASK = 64
"""Minimum number of trials of a task before its curve may count as flat."""

GUESSED_S = 0.5
"""Assumed seconds of a trial before the first one."""

_MOST_AHEAD = 64
"""Maximum number of batches of a task that are forecast."""


@dataclass
class Progress:
    """Progress of a task.

    Attributes:
        ns: time per model run spent in the task with the default schedule.
        size: number of choices.
        floor: lower bound of the ratio by the machine's limits; 0 if unknown.
        rounds: ratios of its trials to the default's time by round, infinite for failures.
        besides: ratios of measurements that do not count as trials.
        seconds: spent on the task.
        done: whether nothing is left to try.
    """

    ns: float
    size: int
    floor: float = 0.0
    rounds: list[list[float]] = field(default_factory=list[list[float]])
    besides: list[float] = field(default_factory=list[float])
    seconds: float = 0.0
    done: bool = False

    @property
    def trials(self) -> int:
        return sum(map(len, self.rounds))

    @property
    def best(self) -> float:
        """Minimum ratio to the default's time; 1 if nothing was measured."""
        return min((r for each in (*self.rounds, self.besides) for r in each), default=1.0)

    @property
    def best_ns(self) -> float:
        """Time per model run spent in the task with the best schedule so far."""
        return self.ns * min(self.best, 1.0)

    @property
    def seconds_each(self) -> float:
        """Average seconds of a trial, or an assumed value before the first."""
        return self.seconds / self.trials if self.trials else GUESSED_S

    def add(self, ratios: Sequence[float], seconds: float, besides: Sequence[float] = ()) -> None:
        """Add the ratios and the duration of a round."""
        if ratios:
            self.rounds.append(list(ratios))
        self.besides += besides
        self.seconds += seconds


@dataclass(frozen=True)
class Expectation:
    """Forecast of the result of tuning.

    Attributes:
        speed: current speedup of the model, as far as kernel times show.
        low, middle, high: speedup at the end: its median, and a 95 % interval.
    """

    speed: float
    low: float
    middle: float
    high: float

    @property
    def more(self) -> float:
        """Expected further reduction of time, as a part of the model's current time."""
        return 1 - self.speed / self.middle

    @property
    def most(self) -> float:
        """Further reduction of time at the upper end of the forecast's interval."""
        return 1 - self.speed / self.high


class TaskScheduler:
    """Chooses the task of each batch, and forecasts the result.

    Args:
        tasks: progress of each task, updated by the caller.
        rest_ns: time per model run spent outside of the tasks.
        batch: trials of a batch.
    """

    def __init__(
        self,
        tasks: Sequence[Progress],
        rest_ns: float,
        batch: int = 8,
        prior: Prior | None = None,
        seed: int = 0,
    ):
        self.tasks = list(tasks)
        self.rest_ns, self.batch = rest_ns, batch
        self.prior = prior or Prior()
        self._seed = seed

    def next(self) -> int | None:
        """Return the index of the task for the next batch; None if all are done."""
        values = [self._value(number) for number in range(len(self.tasks))]
        left = [n for n, task in enumerate(self.tasks) if not task.done]
        return max(left, key=lambda n: (values[n], -n), default=None)

    @property
    def speed(self) -> float:
        """Speedup of the model over default schedules, as far as kernel times show."""
        before = self.rest_ns + sum(task.ns for task in self.tasks)
        now = self.rest_ns + sum(task.best_ns for task in self.tasks)
        return before / now if now else 1.0

    def expect(self, seconds: float, trials: int | None = None) -> Expectation | None:
        """Forecast the result of more seconds and at most `trials` more trials; None if there are
        too few trials so far.

        Batches are distributed among tasks as `next` would do it.
        """
        if sum(task.trials for task in self.tasks) < LEAST_TRIALS:
            return None
        ahead = [self._ahead(number, seconds, trials) for number in range(len(self.tasks))]
        middles = [samples.mean(axis=0) for samples in ahead]
        taken = self._spend(middles, seconds, trials)
        before = self.rest_ns + sum(task.ns for task in self.tasks)
        total = np.full(SAMPLES, self.rest_ns)
        for task, samples, batches in zip(self.tasks, ahead, taken, strict=True):
            total = total + task.ns * np.exp(samples[:, batches])
        speeds = np.sort(before / total)
        low, middle, high = (float(np.quantile(speeds, q)) for q in (0.025, 0.5, 0.975))
        return Expectation(self.speed, low, middle, high)

    def is_over(self, expected: Expectation | None, worth: float = WORTH) -> bool:
        """Whether further tuning is not worth its time.

        An early curve may be flat because nothing good was tried yet, so each task with a relevant
        share of the time needs a minimum number of trials.
        """
        if expected is None or expected.more >= worth or expected.most >= UNLIKELY * worth:
            return False
        now = self.rest_ns + sum(task.best_ns for task in self.tasks)
        heavy = [t for t in self.tasks if t.best_ns * self.prior.gain >= worth * now]
        return all(t.done or t.trials >= min(LEAST_OF_TASK, t.size) for t in heavy)

    def _spend(self, middles: Sequence[Samples], seconds: float, trials: int | None) -> list[int]:
        """Distribute the remaining time; return the number of batches of each task."""
        taken = [0] * len(self.tasks)
        left = float("inf") if trials is None else trials / self.batch
        queue = [(-self._gain(n, middles[n], 0), n) for n in range(len(self.tasks))]
        heapq.heapify(queue)
        while queue and left > 0:
            _, number = heapq.heappop(queue)
            cost = self.tasks[number].seconds_each * self.batch
            if cost > seconds or taken[number] + 1 >= len(middles[number]):
                continue
            taken[number] += 1
            seconds, left = seconds - cost, left - 1
            heapq.heappush(queue, (-self._gain(number, middles[number], taken[number]), number))
        return taken

    def _gain(self, number: int, middle: Samples, batches: int) -> float:
        """Return the nanoseconds gained by another batch, per second of tuning."""
        if batches + 1 >= len(middle):
            return 0.0
        task = self.tasks[number]
        fall = np.exp(middle[batches]) - np.exp(middle[batches + 1])
        return float(task.ns * fall / (task.seconds_each * self.batch))

    def _ahead(self, number: int, seconds: float, trials: int | None) -> Samples:
        """Forecast a task after 0, 1, ... further batches."""
        task = self.tasks[number]
        cost = task.seconds_each * self.batch
        most = int(min(_MOST_AHEAD, seconds / cost)) if cost else _MOST_AHEAD
        if trials is not None:
            most = min(most, -(-trials // self.batch))
        left = max(task.size - task.trials, 0)
        most = 0 if task.done else min(most, -(-left // self.batch))
        return self._forecast(number, [min(i * self.batch, left) for i in range(most + 1)])

    def _value(self, number: int) -> float:
        """Return the expected gain of a batch of a task, per second of tuning."""
        task = self.tasks[number]
        if task.done:
            return 0.0
        middle = self._forecast(number, [0, self.batch]).mean(axis=0)
        return self._gain(number, middle, 0)

    def _forecast(self, number: int, more: Sequence[int]) -> Samples:
        task = self.tasks[number]
        rng = np.random.default_rng([self._seed, number, task.trials])
        return forecast(task.rounds, more, rng, self.prior, task.floor)
