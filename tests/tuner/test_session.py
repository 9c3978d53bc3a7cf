"""A session with synthetic times and a simulated clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from searches.tuner_simulation import MACHINE, best_speed
from searches.tuner_spaces import ProductSpace
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import Progress as Told
from tcopt.tuner.measure.outcomes import CRASH, LOST, OK, Outcome
from tcopt.tuner.measure.workload import Code
from tcopt.tuner.model import ModelSettings
from tcopt.tuner.scheduler import Progress
from tcopt.tuner.search.proposer import Arm
from tcopt.tuner.session import Session, SessionSettings, SessionState
from tcopt.tuner.task_search import SearchTrial, Strategy, TaskSearch
from tcopt.tuner.tasks import Task

SIZES = (197, 768, 768), (128, 768, 3072), (49, 512, 256)
QUICK = SessionSettings(model=ModelSettings(trees=30))


def _task(name: str, ns: float) -> Task:
    return Task(name, name, name, (name,), (), "", "", "target", "cpu", (), (), ns=ns)


class FormulaMeasurer:
    """Measures by formulas; a trial takes a second of its clock."""

    def __init__(self, spaces: dict[str, ProductSpace]):
        self.spaces = spaces
        self.now = 0.0
        self.measured: list[Candidate] = []
        self.interrupt_after = 0
        self.others: list[Candidate | None] = []

    def measure(
        self,
        candidates: Sequence[Candidate],
        *,
        best: Candidate | None = None,
        done: Told | None = None,
        timed: Mapping[str, Outcome] | None = None,
    ) -> list[Outcome]:
        found: list[Outcome] = []
        self.others.append(best)
        for candidate in candidates:
            self.now += 1
            self.measured.append(candidate)
            outcome = self._outcome(candidate)
            found.append(outcome)
            if done is not None:
                done(candidate, outcome)
            if self.interrupt_after and len(self.measured) >= self.interrupt_after:
                self.interrupt_after = 0
                raise KeyboardInterrupt
        return found

    def _outcome(self, candidate: Candidate) -> Outcome:
        space = self.spaces[candidate.task.key]
        assert candidate.choice is not None
        if candidate.choice["rows"] > 12:
            return Outcome(CRASH, "signal 11")
        points = np.stack([space.point(c) for c in (candidate.choice, space.default())])
        time, default = space.time_ns(points)
        rng = np.random.default_rng(len(self.measured))
        ratio = float(time / default * np.exp(rng.normal(0, 0.01)))
        code = Code("f", str(time).encode(), sequence=f"sched.sequence {candidate.key}")
        return Outcome(OK, "", (time,), (default,), low=0.99 * ratio, high=1.01 * ratio, code=code)

    def close(self) -> None:
        """Nothing to close."""


class Kept:
    """A record store in memory."""

    def __init__(self) -> None:
        self.trials: list[tuple[str, SearchTrial]] = []

    def keep(self, task: Task, trial: SearchTrial, outcome: Outcome) -> None:
        self.trials.append((task.key, trial))


def _session(
    weights: Sequence[float] = (1e6, 5e5, 1e3), **more: Any
) -> tuple[Session, FormulaMeasurer, Kept]:
    pytest.importorskip("lightgbm", reason="the model is LightGBM's")
    spaces = {str(size): ProductSpace(*size) for size in SIZES}
    measurer, kept = FormulaMeasurer(spaces), Kept()
    tasks = [
        (
            _task(key, ns),
            TaskSearch(key, [Arm("cpu-matmul", space, MACHINE)], Progress(ns, 0)),
        )
        for (key, space), ns in zip(spaces.items(), weights, strict=False)
    ]
    given = {"settings": QUICK, "rest_ns": 1e5} | more
    session = Session(tasks, measurer, keeper=kept, clock=lambda: measurer.now, **given)
    return session, measurer, kept


Ended = tuple[Session, FormulaMeasurer, Kept, list[SessionState]]


@pytest.fixture(scope="module")
def ended() -> Ended:
    """A session that has used its time, and its states."""
    session, measurer, kept = _session()
    states: list[SessionState] = []
    session.run(400, callback=states.append)
    return session, measurer, kept, states


def test_a_session_makes_kernels_faster_and_keeps_all_trials(ended: Ended) -> None:
    session, measurer, kept, states = ended
    assert session.ended in ("time", "little left")
    assert len(kept.trials) == session.trials == states[-1].trials
    speeds = [state.speed for state in states]
    assert speeds == sorted(speeds) and speeds[-1] > 1.2
    failed = [trial for _, trial in kept.trials if not trial.ran]
    assert failed and {trial.status for trial in failed} == {CRASH}
    found = session.confirm()
    assert [task.key for task, _ in found][:2] == [str(size) for size in SIZES[:2]]
    for task, trial in found[:2]:
        space = measurer.spaces[task.key]
        assert 1 / trial.ratio > 0.85 * best_speed(space)
        assert trial.sequence


def test_what_takes_most_of_a_run_gets_most_of_the_time(ended: Ended) -> None:
    spent = [search.progress.trials for _, search in ended[0].tasks]
    assert spent[2] <= min(spent[:2])


def test_nothing_is_measured_twice(ended: Ended) -> None:
    session, measurer, *_ = ended
    keys = [(c.task.key, c.key) for c in measurer.measured[: session.trials]]
    assert len(keys) == session.trials == len(set(keys))


def test_the_best_so_far_is_measured_beside_the_batch() -> None:
    session, measurer, _ = _session()
    session.run(100)
    assert measurer.others[0] is None
    assert any(each is not None for each in measurer.others)


def test_trials_may_be_limited() -> None:
    session, measurer, _ = _session()
    session.run(1e9, trials=37)
    assert session.ended == "trials"
    assert len(measurer.measured) == 37


def test_a_callback_may_end_it() -> None:
    session, measurer, _ = _session()
    session.run(1e9, callback=lambda state: state.trials >= 32)
    assert session.ended == "asked"
    assert len(measurer.measured) == 32


@pytest.mark.nightly
def test_an_interrupted_session_keeps_what_it_has_and_goes_on() -> None:
    session, measurer, kept = _session()
    measurer.interrupt_after = 21
    session.run(1e9)
    assert session.ended == "interrupted"
    assert len(kept.trials) == 21 == session.trials
    again, others, _ = _session()
    for key, (_, search) in zip(measurer.spaces, again.tasks, strict=True):
        search.add([trial for each, trial in kept.trials if each == key], 10.0)
    again._given = 21
    again.run(1e9, trials=40)
    keys = [(c.task.key, c.key) for c in [*measurer.measured, *others.measured]]
    assert len(keys) == len(set(keys)) == 61


def test_what_a_worker_lost_is_tried_again() -> None:
    class Losing(FormulaMeasurer):
        def _outcome(self, candidate: Candidate) -> Outcome:
            if len(self.measured) % 4 == 0 and len(self.measured) < 32:
                return Outcome(LOST, "the worker is gone")
            return super()._outcome(candidate)

    session, measurer, kept = _session([1e6])
    losing = Losing(measurer.spaces)
    session = Session(session.tasks, losing, keeper=kept, settings=QUICK, clock=lambda: losing.now)
    session.run(1e9, trials=48)
    lost = [trial for _, trial in kept.trials if trial.status == LOST]
    assert len(lost) == 7 and session.trials == 48
    assert all(trial.status != LOST for trial in session.tasks[0][1].trials)


def test_what_is_used_up_ends_a_session() -> None:
    session, _, _ = _session([1e6])
    session.tasks[0][1].proposer.random = lambda count: []  # type: ignore[method-assign]
    session.tasks[0][1].strategy = Strategy.RANDOM
    session.run(1e9)
    assert session.ended == "nothing left"
    assert session.confirm() == []


def test_where_nothing_is_faster_the_default_stays() -> None:
    class Flat(FormulaMeasurer):
        def _outcome(self, candidate: Candidate) -> Outcome:
            return Outcome(OK, "", (1.0,), (1.0,), low=0.99, high=1.01)

    session, measurer, _ = _session([1e6])
    flat = Flat(measurer.spaces)
    session = Session(session.tasks, flat, settings=QUICK, clock=lambda: flat.now)
    session.run(2000)
    assert session.ended == "little left"
    assert session.confirm() == []


def test_a_task_with_one_time_alone_is_not_faster() -> None:
    """A candidate that was timed only once counts as no faster than the default."""
    trial = SearchTrial("cpu-matmul", {}, "model", OK, ratio=0.5)
    assert trial.part == 1.0 and not trial.is_sure
