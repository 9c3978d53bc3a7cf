"""Whether a tuned model is accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tcopt.support.processes.turns import Times
from tcopt.tuner.whole_models import acceptance
from tcopt.tuner.whole_models.acceptance import (
    ROUNDS,
    Verdict,
    find_difference,
    interval,
    judge,
    ratios,
)

RESULT = [np.linspace(0, 1, 100, dtype=np.float32)]


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    """Returns scripted run times, so that tests do not depend on the machine's clock."""

    def set_times(untuned: float, tuned: float) -> None:
        def turns(
            sides: Mapping[str, Callable[[], object]], rounds: int, burst_s: float
        ) -> dict[str, Times]:
            rng = np.random.default_rng(0)
            drift = np.exp(0.3 * rng.standard_normal(rounds))
            noise = np.exp(0.02 * rng.standard_normal((2, rounds)))
            both = {"untuned": untuned * drift * noise[0], "tuned": tuned * drift * noise[1]}
            assert set(sides) == set(both)
            return {name: Times(tuple((float(t),) for t in own)) for name, own in both.items()}

        monkeypatch.setattr(acceptance, "take_turns", turns)

    return set_times


Set = Callable[[float, float], None]


def test_a_model_that_is_faster_and_right_is_kept(times: Set) -> None:
    times(1.1e-3, 1.0e-3)
    found = judge(lambda: RESULT, lambda: RESULT)
    assert found.accepted and found.rounds == ROUNDS
    assert found.low <= found.speed <= found.high
    assert found.speed == pytest.approx(1.1, rel=0.03)


def test_a_model_that_is_as_fast_is_not_kept(times: Set) -> None:
    times(1.0e-3, 1.0e-3)
    found = judge(lambda: RESULT, lambda: RESULT)
    assert not found.accepted and "not faster beyond noise" in found.reason


@pytest.mark.parametrize(("gain", "times_more"), [(1.1, 1), (1.012, 4), (0.95, 1)])
def test_what_is_not_clear_is_measured_for_longer(gain: float, times_more: int, times: Set) -> None:
    times(gain * 1e-3, 1e-3)
    found = judge(lambda: RESULT, lambda: RESULT, patience=4)
    assert found.rounds == times_more * ROUNDS
    assert found.accepted == (gain > 1.05)


def test_a_model_that_is_wrong_is_not_kept(times: Set) -> None:
    times(2e-3, 1e-3)
    found = judge(lambda: RESULT, lambda: [RESULT[0] + np.float32(0.01)])
    assert not found.accepted
    assert "outputs differ: output 0" in found.reason


@pytest.mark.parametrize(
    ("low", "difference", "accepted"),
    [(1.02, "", True), (1.005, "", False), (0.9, "", False), (2.0, "output 0", False)],
)
def test_all_of_the_interval_has_to_be_above(low: float, difference: str, accepted: bool) -> None:
    verdict = Verdict(low + 0.1, low, low + 0.2, 2.0, 1.8, 12, difference)
    assert verdict.accepted is accepted


def test_rounds_are_compared_one_by_one() -> None:
    """A temporary slowdown of the machine affects both sides."""
    slow, quick = Times(((2.0,), (20.0,))), Times(((1.0,), (10.0,)))
    assert ratios(quick, slow) == [2.0, 2.0]


def test_an_interval_holds_its_median_and_narrows() -> None:
    rng = np.random.default_rng(0)
    few, many = (list(1.1 + 0.05 * rng.standard_normal(n)) for n in (12, 300))
    widths = []
    for values in (few, many):
        middle, low, high = interval(values)
        assert low <= middle <= high
        widths.append(high - low)
    assert widths[1] < widths[0]
    assert interval(few) == interval(few)


def test_differences_are_judged_by_the_range_of_an_output() -> None:
    near = [RESULT[0] + np.float32(5e-5)]
    assert find_difference(RESULT, near, 1e-4, 1e-5) == ""
    assert "output 0" in find_difference(RESULT, [RESULT[0] * 2], 1e-4, 1e-5)
    assert "shape" in find_difference(RESULT, [RESULT[0][:5]], 1e-4, 1e-5)
    nan = [np.full(100, np.nan, np.float32)]
    assert find_difference(RESULT, nan, 1e-4, 1e-5)
    assert find_difference(nan, nan, 1e-4, 1e-5) == ""
