"""The search of one task: trials so far, the best, and the next proposals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

import numpy as np

from tcopt.schedules.spaces.space import Choice
from tcopt.support.errors import InputError
from tcopt.tuner.footprints import Floats
from tcopt.tuner.model import ExampleGroup, Ranker
from tcopt.tuner.scheduler import Progress
from tcopt.tuner.search.moves import Points, Scores
from tcopt.tuner.search.proposer import EARLY, EXPLORED, Arm, Proposal, Proposer

ROUNDS_OF_GROUP = 8
"""Rounds whose trials are compared with each other: machines drift over longer times."""

YOUNG = 64
"""Number of trials of a task before its batches explore less."""

KNOWN = 3
"""Minimum number of trials of a rule before it is rated."""

STEEP = 4
"""Exponent of a rule's draw weight: one whose best takes twice as long is drawn 16 times less
often.
"""

SELDOM = 0.05
"""Lower bound of a rule's draw weight."""

GOOD = 16
"""Number of best trials from which local searches start."""


class Strategy(Enum):
    """Strategy by which choices are ordered."""

    MODEL = "model"
    ESTIMATE = "estimate"
    RANDOM = "random"


@dataclass(frozen=True)
class SearchTrial:
    """A choice that was measured.

    Attributes:
        rule, choice: what was measured.
        origin, score: why it was proposed, and its predicted score.
        status: one word, `ok` if it ran and was correct.
        ratio: its time relative to the default's; infinite if it failed.
        low, high: 95 % interval of the ratio, both 0 if unknown.
        ns: the median of its times.
        digest: of its code.
        error: what went wrong.
        sequence: the schedule's text.
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
    sequence: str = ""

    @property
    def ran(self) -> bool:
        """Whether the trial has a time."""
        return self.ratio < inf

    @property
    def is_sure(self) -> bool:
        """Whether its runs were interleaved with the default's, so that its time is reliable."""
        return self.ran and self.high > 0

    @property
    def part(self) -> float:
        """Ratio for comparisons: a trial without a reliable time is not faster than the default."""
        return self.ratio if self.is_sure else max(self.ratio, 1.0)


@dataclass
class TaskSearch:
    """The search of a task: trials so far, and what to measure next.

    Args:
        key: of the workload; `machine`: where it is measured.
        arms: the rules that apply to it.
        progress: shared with the scheduler.
        seed: equal seeds and outcomes give equal searches.
    """

    key: str
    arms: Sequence[Arm]
    progress: Progress
    strategy: Strategy = Strategy.MODEL
    machine: str = ""
    seed: int = 0
    trials: list[SearchTrial] = field(default_factory=list[SearchTrial])
    winners: Sequence[tuple[str, Choice]] = ()

    def __post_init__(self) -> None:
        self.proposer = Proposer(self.arms, self.seed)
        self._features: list[Floats] = []
        self._rounds: list[int] = []
        self.progress.size = self.proposer.size

    @property
    def best(self) -> SearchTrial | None:
        """The fastest trial so far."""
        sure = [trial for trial in self.trials if trial.is_sure]
        return min(sure, key=lambda trial: trial.ratio, default=None)

    @property
    def default(self) -> SearchTrial | None:
        """The trial of the default choice, if there was one."""
        wanted = self.proposer.default()
        for trial in self.trials:
            if trial.rule == wanted.rule and dict(trial.choice) == dict(wanted.choice):
                return trial
        return None

    def good(self, count: int = GOOD) -> list[tuple[str, Choice]]:
        """Return the choices of the fastest trials, best first."""
        sure = sorted((t for t in self.trials if t.is_sure), key=lambda trial: trial.ratio)
        return [(trial.rule, trial.choice) for trial in sure[:count]]

    def propose(self, count: int, ranker: Ranker | None = None) -> list[Proposal]:
        """Return up to `count` proposals to measure next.

        The first batch also has the choices of rules that leave nothing open, which do not count as
        trials.

        Args:
            ranker: a trained model; without one, the rules' estimates order choices.
        """
        single = [] if self.trials else self.proposer.single()
        if self.strategy is Strategy.RANDOM:
            found = self.proposer.random(count)
        elif self.strategy is Strategy.ESTIMATE:
            found = self.proposer.best_by_estimate(count)
        elif ranker is None or not ranker.is_ready:
            found = self.proposer.first(count, self.winners)
        else:
            found = [] if self.trials else self._begin(count)
            found += self._by_model(count - len(found), ranker)
        self.progress.done = not found
        return single + found

    def _begin(self, count: int) -> list[Proposal]:
        """Return the part of the first batch that prior trials do not cover: the default, the
        winners of other tasks, and the best by estimate.
        """
        found = self.proposer.start(max(count // 2, 1), self.winners)
        return found + self.proposer.best_by_estimate(max(count // 2 - len(found), 0))

    def _by_model(self, count: int, ranker: Ranker) -> list[Proposal]:
        def score(arm: Arm, points: Points) -> Scores:
            return ranker.predict(arm.features_of(points))

        share = EARLY if len(self.trials) < YOUNG else EXPLORED
        return self.proposer.best_by_score(count, score, self.good(), share, self._worth())

    def _worth(self) -> dict[str, float]:
        """Return the draw weight of each rule: low if its best is far from the overall best."""
        parts: dict[str, list[float]] = {}
        for trial in self.trials:
            parts.setdefault(trial.rule, []).append(trial.part)
        best = min((min(own) for own in parts.values()), default=1.0)
        return {
            rule: max((best / min(own)) ** STEEP, SELDOM)
            for rule, own in parts.items()
            if len(own) >= KNOWN
        }

    def add(self, trials: Sequence[SearchTrial], seconds: float) -> None:
        """Add the trials of a round, dropping those whose rule no longer has the choice."""
        number = len(self.progress.rounds)
        kept = [trial for trial in trials if self._place(trial) is not None]
        counted = [trial.part for trial in kept if self._counts(trial)]
        besides = [trial.part for trial in kept if not self._counts(trial)]
        self.progress.add(counted, seconds, besides)
        for arm in self.arms:
            own = [trial for trial in kept if trial.rule == arm.rule]
            if own:
                points = np.stack([arm.space.point(trial.choice) for trial in own])
                self._features.extend(arm.features(points))
                self._rounds += [number // ROUNDS_OF_GROUP] * len(own)
                self.trials += own
        for trial in kept:
            self.proposer.saw(trial.rule, trial.choice)

    def _counts(self, trial: SearchTrial) -> bool:
        """Whether a trial's rule has anything to choose."""
        arm = self.proposer.arm(trial.rule)
        return arm is not None and arm.is_open

    def _place(self, trial: SearchTrial) -> Points | None:
        arm = self.proposer.arm(trial.rule)
        if arm is None:
            return None
        try:
            return arm.space.point(trial.choice)
        except InputError:
            return None

    def groups(self) -> list[ExampleGroup]:
        """Return the trials as training examples, grouped by blocks of rounds."""
        found: list[ExampleGroup] = []
        blocks = np.asarray(self._rounds)
        speeds = np.asarray([1 / trial.part for trial in self.trials])
        for block in np.unique(blocks):
            rows = np.flatnonzero(blocks == block)
            features = np.stack([self._features[row] for row in rows])
            found.append(ExampleGroup(self.key, self.machine, features, speeds[rows]))
        return found


def all_groups(searches: Iterable[TaskSearch]) -> list[ExampleGroup]:
    """Return the training examples of several tasks."""
    return [group for search in searches for group in search.groups()]
