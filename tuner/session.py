"""A tuning session: rounds of choosing, measuring and learning, until time is over or nothing is
left to be gained.

    while there is time:
        task      = where the model gains most for a second       scheduler.py
        model     = made anew from all trials                      model.py
        batch     = the best of the task's spaces by it            search/
        outcomes  = the batch measured                             measure/
        records   += outcomes, one by one                          records/

Whatever ends a session, what was measured is kept; the next one begins with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tcopt.tuner.candidates import Candidate
from tcopt.tuner.forecast import Prior
from tcopt.tuner.measure.measurer import Measurer
from tcopt.tuner.measure.outcomes import CRASH, LOST, OK, RUN_TIMEOUT, WRONG, Outcome
from tcopt.tuner.model import Group, Ranker, Settings
from tcopt.tuner.scheduler import WORTH, Expectation, TaskScheduler
from tcopt.tuner.search.proposer import Proposal
from tcopt.tuner.task_search import Strategy, TaskSearch, Trial, all_groups
from tcopt.tuner.tasks import Task

BATCH = 8
"""Trials of a round: a model that learns more often finds more than one that measures more."""

FINALISTS = 3
"""The best schedules of a task, which are measured again at the end: the best of many noisy times
is better than it is."""

SURE = 0.995
"""A schedule counts as faster if the interval of its time, as a part of the default's, is below."""


_REPEATS = (OK, CRASH, RUN_TIMEOUT, WRONG)
"""What equal code ends in again."""


class Keeper(Protocol):
    """Where trials are kept as they come."""

    def keep(self, task: Task, trial: Trial, outcome: Outcome) -> None:
        """Keep a trial; it is safe when this returns."""
        ...


@dataclass(frozen=True)
class TaskState:
    """A task as it is shown.

    Attributes:
        before_ns, ns: of a call, with the default and with the best schedule so far.
        failures: how many trials ended so, by status.
    """

    task: Task
    trials: int
    seconds: float
    before_ns: float
    ns: float
    failures: dict[str, int]
    best: Trial | None


@dataclass(frozen=True)
class State:
    """A session as it is shown, after each round.

    Attributes:
        seconds, limit: that have passed, and may.
        current: the place of the task that was measured.
        speed: how many times as fast the model is, as far as its kernels tell.
        expectation: what the rest of the time is likely to bring; None of too few trials.
    """

    seconds: float
    limit: float
    trials: int
    current: int
    tasks: tuple[TaskState, ...]
    speed: float
    expectation: Expectation | None


Callback = Callable[[State], object]
"""Is called after each round; what is true ends the session."""


@dataclass(frozen=True)
class SessionSettings:
    """How to tune.

    Attributes:
        batch: trials of a round.
        seed: equal seeds and times give equal sessions.
        worth: where the rest of the time promises less, as a part of the model's time, it ends.
        model: how the model is made.
        prior: what curves are expected to be like.
    """

    batch: int = BATCH
    seed: int = 0
    worth: float = WORTH
    model: Settings = field(default_factory=Settings)
    prior: Prior = field(default_factory=Prior)


class Session:
    """Tunes tasks.

    Args:
        tasks: what to tune, each with its search.
        measurer: what finds out how good candidates are.
        rest_ns: what a run of the model spends elsewhere.
        keeper: where trials are kept.
        others: examples of other workloads.
        clock: seconds; tests have one of their own.
    """

    def __init__(
        self,
        tasks: Sequence[tuple[Task, TaskSearch]],
        measurer: Measurer,
        *,
        rest_ns: float = 0.0,
        keeper: Keeper | None = None,
        others: Sequence[Group] = (),
        settings: SessionSettings | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ):
        self.settings = settings or SessionSettings()
        self.tasks = list(tasks)
        self.ended = ""
        self._measurer, self._keeper, self._others = measurer, keeper, list(others)
        self._clock = clock
        self._ranker = Ranker(self.settings.model)
        searches = [search.progress for _, search in self.tasks]
        settings = self.settings
        self.scheduler = TaskScheduler(
            searches, rest_ns, settings.batch, settings.prior, settings.seed
        )
        self._timed: list[dict[str, Outcome]] = [{} for _ in self.tasks]
        self._given = sum(p.trials for p in searches)

    @property
    def ranker(self) -> Ranker:
        """The model of the last round."""
        return self._ranker

    @property
    def trials(self) -> int:
        """Made in this session."""
        return sum(search.progress.trials for _, search in self.tasks) - self._given

    def run(
        self, seconds: float, trials: int | None = None, callback: Callback | None = None
    ) -> None:
        """Tune for so long, and so many trials at most.

        `ended` then says why it ended: time, trials, nothing left, little left, asked or
        interrupted.
        """
        start = self._clock()
        try:
            self.ended = self._rounds(start, seconds, trials, callback)
        except KeyboardInterrupt:
            self.ended = "interrupted"

    def _rounds(
        self, start: float, seconds: float, trials: int | None, callback: Callback | None
    ) -> str:
        while True:
            passed = self._clock() - start
            left = None if trials is None else trials - self.trials
            if passed >= seconds:
                return "time"
            if left is not None and left <= 0:
                return "trials"
            number = self.scheduler.next()
            if number is None:
                return "nothing left"
            self._round(number, min(self.settings.batch, left or self.settings.batch))
            passed = self._clock() - start
            state = self._state(number, passed, seconds, trials)
            if callback is not None and callback(state):
                return "asked"
            if self.scheduler.is_over(state.expectation, self.settings.worth):
                return "little left"

    def _round(self, number: int, count: int) -> None:
        task, search = self.tasks[number]
        start = self._clock()
        if search.strategy is Strategy.MODEL:
            groups = [*self._others, *all_groups(s for _, s in self.tasks)]
            self._ranker.learn(groups, search.key, len(search.trials))
        proposals = search.propose(count, self._ranker)
        if not proposals:
            return
        trials: list[Trial] = []
        try:
            self._measure(task, search, proposals, trials, self._timed[number])
        finally:
            search.add(trials, self._clock() - start)

    def _measure(
        self,
        task: Task,
        search: TaskSearch,
        proposals: Sequence[Proposal],
        trials: list[Trial],
        timed: dict[str, Outcome] | None = None,
    ) -> None:
        """Measure a batch; `trials` grows with each outcome, so that none is lost.

        Args:
            timed: what is known of code, which is not run again; it grows as well.
        """
        candidates = [Candidate(task, p.rule, p.choice) for p in proposals]
        waiting = dict(zip((c.key for c in candidates), proposals, strict=True))
        best = search.best
        incumbent = None if best is None else Candidate(task, best.rule, best.choice)

        def done(candidate: Candidate, outcome: Outcome) -> None:
            proposal = waiting.pop(candidate.key, None)
            if proposal is None:
                return
            trial = make_trial(proposal, outcome)
            if outcome.status == LOST:
                search.proposer.forget(proposal)  # It is nobody's fault, and may be tried again.
            else:
                trials.append(trial)
            if self._keeper is not None:
                self._keeper.keep(task, trial, outcome)
            if timed is not None and outcome.code is not None and outcome.status in _REPEATS:
                timed.setdefault(outcome.code.digest, replace(outcome, code=None))

        outcomes = self._measurer.measure(candidates, best=incumbent, done=done, timed=timed)
        for candidate, outcome in zip(candidates, outcomes, strict=True):
            done(candidate, outcome)

    def confirm(self) -> list[tuple[Task, Trial]]:
        """The tasks that have a schedule faster than the default's, with it, after the best few
        were measured once more against each other; those that gain most first.

        Who interrupted the session does not wait for that.
        """
        found: list[tuple[Task, Trial]] = []
        for task, search in self.tasks:
            finalists = self._finalists(search)
            again: list[Trial] = []
            if finalists and self.ended != "interrupted":
                proposals = [Proposal(t.rule, t.choice, t.origin, t.score) for t in finalists]
                self._measure(task, search, proposals, again)
            sure = [trial for trial in again or finalists if is_faster(trial)]
            if sure:
                found.append((task, min(sure, key=lambda trial: trial.ratio)))
        return sorted(found, key=lambda each: each[0].weight * (each[1].ratio - 1))

    def _finalists(self, search: TaskSearch) -> list[Trial]:
        """The fastest ones of different code, if any may be faster than the default."""
        found: dict[object, Trial] = {}
        for trial in sorted(search.trials, key=lambda trial: trial.ratio):
            if trial.is_sure and trial.ratio < 1:
                found.setdefault(trial.digest or (trial.rule, *trial.choice.values()), trial)
        return list(found.values())[:FINALISTS]

    def _state(self, number: int, passed: float, seconds: float, trials: int | None) -> State:
        left = None if trials is None else max(trials - self.trials, 0)
        states = tuple(_task_state(task, search) for task, search in self.tasks)
        expected = self.scheduler.expect(max(seconds - passed, 0.0), left)
        return State(passed, seconds, self.trials, number, states, self.scheduler.speed, expected)


def make_trial(proposal: Proposal, outcome: Outcome) -> Trial:
    """A measured proposal."""
    return Trial(
        proposal.rule,
        proposal.choice,
        proposal.origin,
        outcome.status,
        outcome.ratio,
        proposal.score,
        outcome.low,
        outcome.high,
        outcome.median_ns,
        outcome.code.digest if outcome.code is not None else "",
        outcome.error,
        outcome.code.sequence if outcome.code is not None else "",
    )


def is_faster(trial: Trial) -> bool:
    """Whether a trial is faster than the default beyond noise."""
    return trial.status == OK and trial.is_sure and trial.high < SURE


def _task_state(task: Task, search: TaskSearch) -> TaskState:
    failures: dict[str, int] = {}
    for trial in search.trials:
        if trial.status != OK:
            failures[trial.status] = failures.get(trial.status, 0) + 1
    progress, best = search.progress, search.best
    share = min(best.ratio, 1.0) if best is not None else 1.0
    return TaskState(
        task, progress.trials, progress.seconds, task.ns, task.ns * share, failures, best
    )
