"""Tuning histories from records: the course of each search, and the learned model's errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tcopt.support.errors import TcoptError
from tcopt.tools.tuning.plots import Curve, Guess, places
from tcopt.tuner.arms import arms_of
from tcopt.tuner.model import Ranker
from tcopt.tuner.past import ROUND, trial_from
from tcopt.tuner.records.store import Store
from tcopt.tuner.records.trials import Trial as Record
from tcopt.tuner.scheduler import Progress
from tcopt.tuner.task_search import Strategy, TaskSearch
from tcopt.tuner.tasks import Task

LEAST = 16
"""Minimum number of trials of a session to be shown."""


@dataclass(frozen=True)
class Recorded:
    """The records of a kernel.

    Attributes:
        trials: for this target, in the order in which they were made.
    """

    task: Task
    trials: tuple[Record, ...]

    @property
    def best(self) -> Record | None:
        """The trial with the best ratio to its default's time."""
        ran = [trial for trial in self.trials if trial.ratio < float("inf")]
        return min(ran, key=lambda trial: trial.ratio, default=None)

    @property
    def failures(self) -> dict[str, int]:
        """Number of failed trials, by status."""
        found: dict[str, int] = {}
        for trial in self.trials:
            if trial.status != "ok":
                found[trial.status] = found.get(trial.status, 0) + 1
        return found

    def runs(self) -> list[list[Record]]:
        """Return the trials of each session, skipping short sessions."""
        found: dict[str, list[Record]] = {}
        for trial in self.trials:
            found.setdefault(trial.run, []).append(trial)
        return [own for own in found.values() if len(own) >= LEAST]


def recorded(store: Store, tasks: Iterable[Task]) -> list[Recorded]:
    """Return the records of some kernels, skipping those without trials."""
    found: list[Recorded] = []
    for task in tasks:
        trials = store.trials(workloads=[task.key], target=task.target_key)
        if trials:
            trials.sort(key=lambda trial: trial.at)
            found.append(Recorded(task, tuple(trials)))
    return found


def strategy_of(run: str) -> str:
    """Return the strategy of a session, from its name."""
    name = run.partition("-")[0]
    return name if name in {each.value for each in Strategy} else "other"


def curves(kernel: Recorded) -> list[Curve]:
    """Return a curve for each session."""
    return [
        Curve(
            strategy_of(own[0].run),
            tuple(trial_from(trial).part for trial in own),
            tuple(trial.at - own[0].at for trial in own),
        )
        for own in kernel.runs()
    ]


def guesses(kernel: Recorded) -> list[Guess]:
    """Predict each round by a model trained on the earlier rounds, and compare with the
    measurements.

    Empty for a kernel whose rules are no longer available.
    """
    try:
        arms = {arm.rule: arm for arm in arms_of(kernel.task)}
    except TcoptError:
        return []
    found: list[Guess] = []
    for own in kernel.runs():
        search = TaskSearch(kernel.task.key, list(arms.values()), Progress(1.0, 0))
        for start in range(0, len(own), ROUND):
            trials = [trial_from(record) for record in own[start : start + ROUND]]
            ranker = Ranker()
            ranker.learn(search.groups(), kernel.task.key, len(search.trials))
            known = len(search.trials)
            search.add(trials, 1.0)
            if ranker.is_ready:
                found += _judged(search, known, ranker)
    return found


def _judged(search: TaskSearch, known: int, ranker: Ranker) -> list[Guess]:
    """Return the predictions for the last round."""
    trials = search.trials[known:]
    scores: list[float] = []
    for trial in trials:
        arm = search.proposer.arm(trial.rule)
        assert arm is not None
        scores.append(float(ranker.predict(arm.features(arm.space.point(trial.choice)[None]))[0]))
    found = places(scores, [trial.part for trial in trials])
    names = [f"{t.rule} {_short(t.choice.items())}" for t in trials]
    return [Guess(name, *place) for name, place in zip(names, found, strict=False)]


def _short(items: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{name}={value}" for name, value in items)


def agreement(found: Sequence[Guess]) -> float:
    """Return one minus the mean error of ranks in a batch, which is roughly the part of pairs in
    the right order; random predictions have 2/3.
    """
    return 1 - sum(guess.error for guess in found) / len(found) if found else 0.0
