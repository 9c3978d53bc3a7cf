"""What records say of a model's kernels: how each search went, and what the model got wrong."""

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
"""Trials of a run below which there is nothing to see."""


@dataclass(frozen=True)
class Recorded:
    """What records have of a kernel.

    Attributes:
        trials: for this target, in the order in which they were made.
    """

    task: Task
    trials: tuple[Record, ...]

    @property
    def best(self) -> Record | None:
        """The fastest against its default."""
        ran = [trial for trial in self.trials if trial.ratio < float("inf")]
        return min(ran, key=lambda trial: trial.ratio, default=None)

    @property
    def failures(self) -> dict[str, int]:
        """How many did not run, by status."""
        found: dict[str, int] = {}
        for trial in self.trials:
            if trial.status != "ok":
                found[trial.status] = found.get(trial.status, 0) + 1
        return found

    def runs(self) -> list[list[Record]]:
        """The trials of each session."""
        found: dict[str, list[Record]] = {}
        for trial in self.trials:
            found.setdefault(trial.run, []).append(trial)
        return [own for own in found.values() if len(own) >= LEAST]


def recorded(store: Store, tasks: Iterable[Task]) -> list[Recorded]:
    """What records have of some kernels, those with trials alone."""
    found: list[Recorded] = []
    for task in tasks:
        trials = store.trials(workloads=[task.key], target=task.target_key)
        if trials:
            trials.sort(key=lambda trial: trial.at)
            found.append(Recorded(task, tuple(trials)))
    return found


def strategy_of(run: str) -> str:
    """What ordered the choices of a session, by its name."""
    name = run.partition("-")[0]
    return name if name in {each.value for each in Strategy} else "other"


def curves(kernel: Recorded) -> list[Curve]:
    """One for each session."""
    return [
        Curve(
            strategy_of(own[0].run),
            tuple(trial_from(trial).part for trial in own),
            tuple(trial.at - own[0].at for trial in own),
        )
        for own in kernel.runs()
    ]


def guesses(kernel: Recorded) -> list[Guess]:
    """What a model says of each round that has learned from the rounds before, and what came.

    Nothing of a kernel whose rules cannot be asked any more.
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
    """The last round's guesses."""
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
    """The part of pairs, of places in a batch, that the model put in the right order, roughly:
    one less the mean error of places, so that 2/3 is what guessing at random gives."""
    return 1 - sum(guess.error for guess in found) / len(found) if found else 0.0
