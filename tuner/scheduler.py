"""Which task the next batch is of: where the whole model gains most for a second of measuring.

A task's promise is what its curve is forecast to fall by in a batch, times what a run of the model
spends in it, over the seconds that a batch takes: tasks differ many times in how long they compile
and run. What is spent on one whose curve is flat is better spent elsewhere; where all are flat,
tuning is done.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tcopt.tuner.forecast import SAMPLES, Prior, Samples, forecast

LEAST_TRIALS = 30
"""Without as many in all nothing is forecast."""

WORTH = 0.005
"""Where the rest of the time promises less, as a part of the model's time, tuning is done."""

UNLIKELY = 4
"""The upper end of the interval may promise as many times that."""

LEAST_OF_TASK = 64
"""Trials of a task before it is believed that little is left in it."""

GUESSED_S = 0.5
"""Seconds that a trial takes before one was made."""

_MOST_AHEAD = 64
"""Batches of a task that are looked ahead."""


@dataclass
class Progress:
    """What is known of a task.

    Attributes:
        ns: what a run of the model spends in it with the default schedule.
        size: how many choices there are.
        floor: the least part of that which the machine's limits allow; 0 if that is not known.
        rounds: of its trials: times as parts of the default's, infinite for failures.
        besides: the same of what was measured, and counts as no trial.
        seconds: spent on them.
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
        """The least part of the default's time; 1 where nothing is faster."""
        return min((r for each in (*self.rounds, self.besides) for r in each), default=1.0)

    @property
    def best_ns(self) -> float:
        """What a run of the model spends in it with the best schedule so far."""
        return self.ns * min(self.best, 1.0)

    @property
    def seconds_each(self) -> float:
        """That a trial takes, as far as is known."""
        return self.seconds / self.trials if self.trials else GUESSED_S

    def add(self, ratios: Sequence[float], seconds: float, besides: Sequence[float] = ()) -> None:
        """A round was measured."""
        if ratios:
            self.rounds.append(list(ratios))
        self.besides += besides
        self.seconds += seconds


@dataclass(frozen=True)
class Expectation:
    """What tuning is likely to come to.

    Attributes:
        speed: how many times as fast the model is now, as far as its kernels tell.
        low, middle, high: and at the end: its median, and an interval of 95 %.
    """

    speed: float
    low: float
    middle: float
    high: float

    @property
    def more(self) -> float:
        """How much of the model's time now is still to be gained."""
        return 1 - self.speed / self.middle

    @property
    def most(self) -> float:
        """How much at most, at the upper end of the interval."""
        return 1 - self.speed / self.high


class TaskScheduler:
    """Chooses tasks, and forecasts.

    Args:
        tasks: what is known of each; changed by who measures.
        rest_ns: what a run of the model spends elsewhere.
        batch: trials at a time.
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
        """The place of the task that the next batch should be of; None where none has any left."""
        values = [self._value(number) for number in range(len(self.tasks))]
        left = [n for n, task in enumerate(self.tasks) if not task.done]
        return max(left, key=lambda n: (values[n], -n), default=None)

    @property
    def speed(self) -> float:
        """How many times as fast the model is than with default schedules, as kernels tell."""
        before = self.rest_ns + sum(task.ns for task in self.tasks)
        now = self.rest_ns + sum(task.best_ns for task in self.tasks)
        return before / now if now else 1.0

    def expect(self, seconds: float, trials: int | None = None) -> Expectation | None:
        """What is likely to come of so many more seconds, and trials at most; None of too few
        trials so far.

        Batches go to tasks as `next` would give them.
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
        """Whether the rest of the time is not worth it.

        Early on a curve may be flat because nothing good was tried yet, so each task that counts
        needs some trials first.
        """
        if expected is None or expected.more >= worth or expected.most >= UNLIKELY * worth:
            return False
        now = self.rest_ns + sum(task.best_ns for task in self.tasks)
        heavy = [t for t in self.tasks if t.best_ns * self.prior.gain >= worth * now]
        return all(t.done or t.trials >= min(LEAST_OF_TASK, t.size) for t in heavy)

    def _spend(self, middles: Sequence[Samples], seconds: float, trials: int | None) -> list[int]:
        """How many batches each task is given."""
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
        """Nanoseconds gained by another batch, for each second that it takes."""
        if batches + 1 >= len(middle):
            return 0.0
        task = self.tasks[number]
        fall = np.exp(middle[batches]) - np.exp(middle[batches + 1])
        return float(task.ns * fall / (task.seconds_each * self.batch))

    def _ahead(self, number: int, seconds: float, trials: int | None) -> Samples:
        """Forecasts after 0, 1, ... batches of a task."""
        task = self.tasks[number]
        cost = task.seconds_each * self.batch
        most = int(min(_MOST_AHEAD, seconds / cost)) if cost else _MOST_AHEAD
        if trials is not None:
            most = min(most, -(-trials // self.batch))
        left = max(task.size - task.trials, 0)
        most = 0 if task.done else min(most, -(-left // self.batch))
        return self._forecast(number, [min(i * self.batch, left) for i in range(most + 1)])

    def _value(self, number: int) -> float:
        """What a batch of a task promises for each second."""
        task = self.tasks[number]
        if task.done:
            return 0.0
        middle = self._forecast(number, [0, self.batch]).mean(axis=0)
        return self._gain(number, middle, 0)

    def _forecast(self, number: int, more: Sequence[int]) -> Samples:
        task = self.tasks[number]
        rng = np.random.default_rng([self._seed, number, task.trials])
        return forecast(task.rounds, more, rng, self.prior, task.floor)
