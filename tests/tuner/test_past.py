"""A session's knowledge of earlier ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.tuner_models import save_product
from tcopt.compiler.options import CompileOptions
from tcopt.tuner.arms import arms_of
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.forecast import Prior
from tcopt.tuner.measure.outcomes import CRASH, OK, Outcome
from tcopt.tuner.measure.workload import Code
from tcopt.tuner.past import ROUND, Past
from tcopt.tuner.records.trials import trial_of
from tcopt.tuner.search.moves import draw_valid
from tcopt.tuner.search.proposer import Proposal
from tcopt.tuner.session import make_trial
from tcopt.tuner.tasks import Task, tasks_of

TARGET = "cpu:haswell"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    folder = tmp_path_factory.mktemp("models")
    sizes = (64, 96, 128), (32, 64, 256)
    return [
        tasks_of(save_product(folder / f"{n}.onnx", *size), CompileOptions(target=TARGET))[0]
        for n, size in enumerate(sizes)
    ]


def _keep(past: Past, task: Task, count: int, *, version: str = "") -> list[dict[str, int]]:
    """Record invented outcomes of drawn choices; the first is the best, every fifth fails."""
    arm = arms_of(task)[0]
    points = draw_valid(arm.space, count, np.random.default_rng(1))
    if version:
        past.setting = replace(past.setting, code_version=version)
    choices: list[dict[str, int]] = []
    for number, point in enumerate(points):
        choice = arm.space.choice(point)
        choices.append(choice)
        ratio = 0.5 + number / 100
        text = f"sched.sequence @s{number}"
        code = Code("f", text.encode(), sequence=text, rule=arm.rule, choice=choice)
        outcome = Outcome(
            OK, "", (ratio * 1e4,), (1e4,), low=0.99 * ratio, high=1.01 * ratio, code=code
        )
        if number % 5 == 4:
            outcome = Outcome(CRASH, "signal 11")
        past.keep(task, make_trial(Proposal(arm.rule, choice, "model"), outcome), outcome)
    return choices


def test_the_next_session_begins_with_what_there_is(tmp_path: Path, tasks: list[Task]) -> None:
    address = str(tmp_path / "records.db")
    with Past.open(address, 2) as past:
        assert past.trials(tasks[0]) == [] and past.winners(tasks[0]) == []
        choices = _keep(past, tasks[0], 20)
    with Past.open(address, 2) as past:
        rounds = past.trials(tasks[0])
        assert [len(trials) for trials, _ in rounds] == [ROUND, ROUND, 20 - 2 * ROUND]
        assert all(seconds > 0 for _, seconds in rounds)
        trials = [trial for own, _ in rounds for trial in own]
        assert [dict(trial.choice) for trial in trials] == choices
        assert [trial.ran for trial in trials] == [n % 5 != 4 for n in range(20)]
        assert trials[0].is_sure and np.isclose(trials[0].ratio, 0.5, rtol=1e-3)
        assert past.groups([tasks[0]]) == []
    with Past.open(address, 1) as past:
        assert past.trials(tasks[0]) == []  # For another number of threads.


def test_other_workloads_teach(tmp_path: Path, tasks: list[Task]) -> None:
    with Past.open(str(tmp_path / "records.db"), 2) as past:
        _keep(past, tasks[0], 20)
        (group,) = past.groups([tasks[1]])
        assert group.workload == tasks[0].key and group.machine == past.setting.machine_key
        assert len(group.speeds) == 20
        assert (group.speeds == 0).sum() == 4
        assert past.prior([tasks[1]]) == Prior()  # Few trials do not determine a curve.
        _keep(past, tasks[0], 40)
        assert past.prior([tasks[1]]).gain > Prior().gain
        assert np.isclose(group.speeds.max(), 2.0, rtol=1e-3)


def test_another_version_of_the_compiler_says_where_to_look(
    tmp_path: Path, tasks: list[Task]
) -> None:
    address = str(tmp_path / "records.db")
    with Past.open(address, 2) as past:
        choices = _keep(past, tasks[0], 20, version="old")
    with Past.open(address, 2) as past:
        assert past.trials(tasks[0]) == []
        winners = past.winners(tasks[0])
        assert [dict(choice) for _, choice in winners] == choices[:3]
        (group,) = past.groups([tasks[0]])
        assert len(group.speeds) == 20


def test_records_whose_rule_is_gone_are_left_out(tmp_path: Path, tasks: list[Task]) -> None:
    with Past.open(str(tmp_path / "records.db"), 2) as past:
        for number in range(12):
            candidate = Candidate(tasks[0], "a-rule-of-old", {"rows": number})
            outcome = Outcome(OK, "", (1e3,), (1e3,), low=0.9, high=1.1)
            past.store.add(
                tasks[0], [trial_of(candidate, outcome, past.setting, float(number))], past.setting
            )
        assert past.groups([tasks[1]]) == []
