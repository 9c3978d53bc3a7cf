"""Candidates checked and timed: any behaviour ends as a typed outcome."""

from __future__ import annotations

import pytest

from searches.planted_kernels import WORKLOAD, PlantedBuilder, planted, planted_task
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import LocalMeasurer, MeasureSettings
from tcopt.tuner.measure.outcomes import (
    COMPILE_TIMEOUT,
    CRASH,
    OK,
    RUN_TIMEOUT,
    WRONG,
    CandidateFailed,
    Outcome,
)
from tcopt.tuner.measure.runner import RunLimits, Runner
from tcopt.tuner.measure.turns import TurnSettings, interval

SETTINGS = MeasureSettings(
    threads=2,
    memory=1 << 30,
    limits=RunLimits(least=0.5),
    turns=TurnSettings(fewest=3, most=4, noise=5.0),
)
FAULTS = {
    "crash": (CRASH, "SIGSEGV"),
    "far": (CRASH, "SIGSEGV"),
    "ends": (CRASH, "SIGABRT"),
    "greedy": (CRASH, "out-of-memory"),
    "behind": (WRONG, "writes after argument 1, an output"),
    "in front": (WRONG, "writes before argument 1, an output"),
    "to an input": (WRONG, "writes to argument 0, an input"),
    "wrong": (WRONG, "nan at [0] where"),
    "a hole": (WRONG, "nan at [4095] where"),
    "old workspace": (WRONG, "nan at [0] where"),
    "hang": (RUN_TIMEOUT, "did not end within"),
    "takes for ever": (COMPILE_TIMEOUT, "did not end within"),
}


def test_a_campaign_with_every_kind_of_fault_finds_the_best():
    task = planted_task()
    names = ["slow", *FAULTS, "good", "very slow"]
    with LocalMeasurer(SETTINGS, PlantedBuilder()) as measurer:
        outcomes = measurer.measure([Candidate(task, rule=name) for name in names])
    found = dict(zip(names, outcomes, strict=True))
    for name, (status, text) in FAULTS.items():
        assert found[name].status == status, (name, found[name])
        assert text in found[name].error, (name, found[name].error)
    assert found["good"].status == OK and found["good"].high < 1
    assert found["very slow"].status == OK and found["very slow"].hopeless
    assert min(found, key=lambda name: found[name].median_ns) == "good"


def test_equal_code_is_not_run_again():
    task = planted_task()
    with LocalMeasurer(SETTINGS, PlantedBuilder()) as measurer:
        (first,) = measurer.measure([Candidate(task, rule="good")])
        assert first.code is not None
        known = Outcome(OK, "", (7.0,), (8.0,))
        told: list[Outcome] = []
        again = measurer.measure(
            [Candidate(task, rule="good"), Candidate(task, rule="slow")],
            done=lambda candidate, outcome: told.append(outcome),
            timed={first.code.digest: known},
        )
        alone = measurer.measure([Candidate(task, rule="good")], timed={first.code.digest: known})
    assert again[0].ns == alone[0].ns == (7.0,) and again[0].code is not None
    assert again[1].status == OK and again[1].ns != (7.0,)
    assert len(told) == 2


@pytest.fixture
def runner():
    runner = Runner("cpu", 2, RunLimits(least=0.5), 1 << 30)
    runner.use(WORKLOAD)
    yield runner
    runner.stop()


def test_one_process_serves_all_until_one_of_them_ends_it(runner: Runner):
    for number, name in enumerate(("good", "slow", "good")):
        runner.add(number, planted(name))
        runner.check(number, None)
    assert runner.started == 1
    runner.add(3, planted("crash"))
    with pytest.raises(CandidateFailed):
        runner.check(3, None)
    assert runner.time(0, 10, 2, 1.0)
    assert runner.started == 2


def test_the_end_of_the_process_from_outside_is_a_crash(runner: Runner):
    import os
    import signal

    runner.add(0, planted("good"))
    runner.check(0, None)
    assert runner.pid is not None
    os.kill(runner.pid, signal.SIGKILL)
    with pytest.raises(CandidateFailed, match="SIGKILL") as caught:
        runner.time(0, 10, 2, 1.0)
    assert caught.value.status == CRASH
    assert runner.time(0, 10, 2, 1.0)


def test_code_that_is_faster_than_the_machine_is_wrong():
    from dataclasses import replace

    from tcopt.tuner.measure.turns import Turns

    workload = replace(WORKLOAD, least_ns=1e9)
    runner = Runner("cpu", 1, RunLimits())
    runner.use(workload)
    try:
        found = Turns(runner, workload, {0: planted("good")}, 0).run()
    finally:
        runner.stop()
    assert found[0].status == WRONG and "less than this machine's limit" in found[0].error


@pytest.mark.parametrize(("limits", "status"), [([1e9, 1.0], OK), ([1e9] * 9, WRONG)])
def test_the_limit_is_measured_again_before_a_time_is_beyond_it(
    runner: Runner, limits: list[float], status: str
):
    """A machine that was busy when its limit was measured does not invalidate results."""
    from dataclasses import replace

    from tcopt.tuner.measure.turns import Turns

    measured = iter(limits)
    workload, turns = replace(WORKLOAD, least_ns=1e9), SETTINGS.turns
    codes = {0: planted("good")}
    found = Turns(runner, workload, codes, 0, turns, lambda: next(measured)).run()
    assert found[0].status == status


def test_equal_code_is_measured_once(runner: Runner):
    from tcopt.tuner.measure.turns import Turns

    codes = {0: planted("slow"), 1: planted("good"), 2: planted("good")}
    found = Turns(runner, WORKLOAD, codes, 0, SETTINGS.turns).run()
    assert found[1].ns == found[2].ns and found[1].status == found[2].status == OK


def test_an_interval_narrows_with_the_number_of_rounds():
    few, many = interval([0.1, -0.1, 0.05]), interval([0.1, -0.1, 0.05] * 5)
    assert few[0] < many[0] < 1.02 < many[1] < few[1]
    assert interval([0.0]) == (0.0, float("inf"))
