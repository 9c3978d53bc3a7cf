"""Selection of the next task, and the expected gain of the remaining time."""

from __future__ import annotations

from math import inf

import numpy as np

from tcopt.tuner.forecast import SAMPLES, Prior, forecast, prior_of
from tcopt.tuner.scheduler import Progress, TaskScheduler


def _falling(rounds: int, gain: float, seed: int = 0) -> list[list[float]]:
    """Return rounds of times, the best of which decreases as a power of the trials."""
    rng = np.random.default_rng(seed)
    found: list[list[float]] = []
    for number in range(rounds):
        best = np.exp(-gain * (1 - (1 + 16 * number) ** -0.5))
        found.append(list(best * np.exp(rng.exponential(0.2, 16))))
    return found


def test_heavier_tasks_are_first() -> None:
    tasks = [Progress(1e5, 1000), Progress(9e5, 1000), Progress(2e5, 1000)]
    assert TaskScheduler(tasks, 0).next() == 1


def test_what_costs_less_time_is_first() -> None:
    slow, quick = Progress(1e6, 10**6), Progress(1e6, 10**6)
    slow.rounds = _falling(3, 0.3)
    quick.rounds = _falling(3, 0.3)
    slow.seconds, quick.seconds = 400.0, 10.0
    assert TaskScheduler([slow, quick], 0).next() == 1


def test_flat_curves_are_left_alone() -> None:
    flat, falling = Progress(1e6, 10**6), Progress(1e6, 10**6)
    flat.rounds = [[1.0] * 16] * 6
    falling.rounds = _falling(6, 0.6)
    flat.seconds = falling.seconds = 20.0
    assert TaskScheduler([flat, falling], 0).next() == 1


def test_what_is_used_up_is_not_next() -> None:
    tasks = [Progress(1e6, 10, done=True), Progress(1e3, 10)]
    assert TaskScheduler(tasks, 0).next() == 1
    tasks[1].done = True
    assert TaskScheduler(tasks, 0).next() is None


def test_nothing_is_forecast_of_few_trials() -> None:
    task = Progress(1e6, 10**6)
    task.add([1.0] * 16, 4.0)
    scheduler = TaskScheduler([task], 0)
    assert scheduler.expect(60) is None
    task.add([0.9] * 16, 4.0)
    assert scheduler.expect(60) is not None


def test_a_forecast_holds_what_came() -> None:
    whole = _falling(20, 0.4, seed=5)
    task = Progress(1e6, 10**6, rounds=whole[:5], seconds=25.0)
    expected = TaskScheduler([task], 2e5).expect(15 * 5.0)
    assert expected is not None
    final = Progress(1e6, 10**6, rounds=whole)
    truth = (1e6 + 2e5) / (final.best_ns + 2e5)
    assert expected.low <= truth <= expected.high
    assert expected.speed <= expected.low <= expected.middle <= expected.high


def test_less_time_promises_less() -> None:
    task = Progress(1e6, 10**6, rounds=_falling(5, 0.4), seconds=25.0)
    scheduler = TaskScheduler([task], 0)
    found = [scheduler.expect(seconds) for seconds in (0.0, 20.0, 500.0)]
    more = [each.more for each in found if each is not None]
    assert abs(more[0]) < 1e-9
    assert more[0] < more[1] < more[2]
    limited = scheduler.expect(500.0, trials=16)
    assert limited is not None and limited.more < more[2]


def test_a_space_that_is_nearly_used_up_promises_little() -> None:
    task = Progress(1e6, 80, rounds=_falling(5, 0.4), seconds=25.0)
    expected = TaskScheduler([task], 0).expect(500.0)
    assert expected is not None and abs(expected.more) < 1e-9


def test_it_is_over_where_little_is_left() -> None:
    flat = Progress(1e6, 10**6, rounds=[[1.0] * 16] * 30, seconds=120.0)
    early = Progress(1e6, 10**6, rounds=[[1.0] * 16] * 2, seconds=8.0)
    falling = Progress(1e6, 10**6, rounds=_falling(4, 0.5), seconds=16.0)
    for task, over in ((flat, True), (early, False), (falling, False)):
        scheduler = TaskScheduler([task], 0)
        expected = scheduler.expect(60.0)
        assert expected is not None
        assert scheduler.is_over(expected) is over
    assert not TaskScheduler([flat], 0).is_over(None)


def test_limits_of_the_machine_bound_a_forecast() -> None:
    rounds = _falling(5, 1.0)
    best = min(min(each) for each in rounds)
    rng = np.random.default_rng(0)
    free = forecast(rounds, [1000], rng)
    bound = forecast(rounds, [1000], np.random.default_rng(0), floor=0.98 * best)
    assert free.shape == (SAMPLES, 1)
    assert free.mean() < np.log(0.98 * best) <= bound.min()


def test_failures_change_no_best() -> None:
    task = Progress(1e6, 100)
    task.add([inf, inf], 1.0)
    assert task.best_ns == 1e6
    task.add([0.5, inf], 1.0)
    assert task.best_ns == 5e5
    assert np.isfinite(forecast(task.rounds, [16], np.random.default_rng(0))).all()


def test_past_curves_are_a_prior() -> None:
    prior = prior_of([[[0.5] * 32]] * 8)
    assert prior.gain > Prior().gain
    assert prior_of([]) == Prior()
    assert prior_of([[[1.0] * 3]]) == Prior()
