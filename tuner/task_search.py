"""The search of one task: what was tried, what is best, and what to try next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

import numpy as np

from tcopt.schedules.spaces.space import Choice
from tcopt.support.errors import InputError
from tcopt.tuner.footprints import Floats
from tcopt.tuner.model import Group, Ranker
from tcopt.tuner.scheduler import Progress
from tcopt.tuner.search.moves import Points, Scores
from tcopt.tuner.search.proposer import Arm, Proposal, Proposer

ROUNDS_OF_GROUP = 8
"""Rounds whose trials are compared with each other: machines drift."""

GOOD = 16
"""Trials, the best ones, that searches begin at."""


class Strategy(Enum):
    """What orders choices."""

    MODEL = "model"
    ESTIMATE = "estimate"
    RANDOM = "random"


@dataclass(frozen=True)
class Trial:
    """A choice that was measured.

    Attributes:
        rule, choice: what was measured.
        origin, score: why, and what the model had said.
        status: one word, `ok` where it ran and was right.
        ratio: its time as a part of the default's; infinite where it failed.
        low, high: the interval of that at 95 %, both 0 where it is not known.
        ns: the median of its times.
        digest: of its code.
        error: what went wrong.
    """

    rule: str
    choice: Mapping[str, int]
    origin: str
    status: str
    ratio: float = inf
    score: float = 0.0
    low: float = 0.0
    high: float = 0.0
    ns: float = inf
    digest: str = ""
    error: str = ""

    @property
    def ran(self) -> bool:
        """Whether it has a time."""
        return self.ratio < inf


@dataclass
class TaskSearch:
    """What is known of a task, and what to measure next.

    Args:
        key: of the workload; `machine`: where it is measured.
        arms: the rules that take it.
        progress: what the scheduler knows of it.
        seed: equal seeds and outcomes give equal searches.
    """

    key: str
    arms: Sequence[Arm]
    progress: Progress
    strategy: Strategy = Strategy.MODEL
    machine: str = ""
    seed: int = 0
    trials: list[Trial] = field(default_factory=list[Trial])
    winners: Sequence[tuple[str, Choice]] = ()

    def __post_init__(self) -> None:
        self.proposer = Proposer(self.arms, self.seed)
        self._features: list[Floats] = []
        self._rounds: list[int] = []
        self._by_digest: dict[str, Trial] = {}
        self.progress.size = self.proposer.size

    @property
    def best(self) -> Trial | None:
        """The fastest so far."""
        ran = [trial for trial in self.trials if trial.ran]
        return min(ran, key=lambda trial: trial.ratio, default=None)

    def good(self, count: int = GOOD) -> list[tuple[str, Choice]]:
        """The fastest ones, the best first."""
        ran = sorted((t for t in self.trials if t.ran), key=lambda trial: trial.ratio)
        return [(trial.rule, trial.choice) for trial in ran[:count]]

    def propose(self, count: int, ranker: Ranker | None = None) -> list[Proposal]:
        """What to measure next; less than asked for where little is left.

        Args:
            ranker: a model that has learned; without one the rules' estimates say.
        """
        if self.strategy is Strategy.RANDOM:
            found = self.proposer.random(count)
        elif self.strategy is Strategy.ESTIMATE:
            found = self.proposer.best_by_estimate(count)
        elif ranker is None or not ranker.is_ready:
            found = self.proposer.first(count, self.winners)
        else:
            first = [] if self.trials else self.proposer.known(self.winners, count // 2)
            found = first + self._by_model(count - len(first), ranker)
        self.progress.done = not found
        return found

    def _by_model(self, count: int, ranker: Ranker) -> list[Proposal]:
        def score(arm: Arm, points: Points) -> Scores:
            return ranker.predict(arm.features(points))

        return self.proposer.best_by_score(count, score, self.good())

    def add(self, trials: Sequence[Trial], seconds: float) -> None:
        """A round was measured."""
        number = len(self.progress.rounds)
        ratios: list[float] = []
        for trial in trials:
            if self._note(trial, number):
                ratios.append(trial.ratio)
        self.progress.add(ratios, seconds)

    def _note(self, trial: Trial, number: int) -> bool:
        """Keep a trial; whether its rule still has such a choice."""
        self.proposer.saw(trial.rule, trial.choice)
        arm = self.proposer.arm(trial.rule)
        if arm is None:
            return False
        try:
            point = arm.space.point(trial.choice)
        except InputError:
            return False
        self.trials.append(trial)
        self._features.append(arm.features(point[None]))
        self._rounds.append(number // ROUNDS_OF_GROUP)
        if trial.digest and trial.ran:
            self._by_digest.setdefault(trial.digest, trial)
        return True

    def twin(self, digest: str) -> Trial | None:
        """A trial of the same code, if there was one."""
        return self._by_digest.get(digest)

    def groups(self) -> list[Group]:
        """The trials as examples, by blocks of rounds."""
        found: list[Group] = []
        blocks = np.asarray(self._rounds)
        speeds = np.asarray([1 / trial.ratio for trial in self.trials])
        for block in np.unique(blocks):
            rows = np.flatnonzero(blocks == block)
            features = np.concatenate([self._features[row] for row in rows])
            found.append(Group(self.key, self.machine, features, speeds[rows]))
        return found


def all_groups(searches: Iterable[TaskSearch]) -> list[Group]:
    """The trials of several tasks."""
    return [group for search in searches for group in search.groups()]
