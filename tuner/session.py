"""A tuning session: rounds of choosing, measuring and learning, until time is over or no further
gain is expected.

    while there is time:
        task      = where the model gains most for a second       scheduler.py
        model     = trained again on all trials                    model.py
        batch     = the best of the task's spaces by it            search/
        outcomes  = the batch measured                             measure/
        records   += outcomes, one by one                          records/

However a session ends, its trials are stored; the next session starts from them.
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
from tcopt.tuner.model import ExampleGroup, ModelSettings, Ranker
from tcopt.tuner.scheduler import WORTH, Expectation, TaskScheduler
from tcopt.tuner.search.proposer import Proposal
from tcopt.tuner.task_search import SearchTrial, Strategy, TaskSearch, all_groups
from tcopt.tuner.tasks import Task

BATCH = 8
"""Trials of a round: learning more often finds more than measuring more at a time."""

FINALISTS = 3
"""Number of best schedules of a task that are measured again at the end, because the minimum of
noisy times is biased.
"""

SURE = 0.995
"""A schedule is faster if the upper end of its interval, relative to the default, is below this."""


_REPEATS = (OK, CRASH, RUN_TIMEOUT, WRONG)
"""Statuses that are the same each time the same code is run."""


class TrialStorage(Protocol):
    """Storage for trials."""

    def keep(self, task: Task, trial: SearchTrial, outcome: Outcome) -> None:
        """Store a trial; it is not lost once this returns."""
        ...


@dataclass(frozen=True)
class TaskState:
    """Status of a task, for display.

    Attributes:
        before_ns, ns: time of a call, with the default and with the best schedule so far.
        failures: number of failed trials, by status.
    """

    task: Task
    trials: int
    seconds: float
    before_ns: float
    ns: float
    failures: dict[str, int]
    best: SearchTrial | None


@dataclass(frozen=True)
class SessionState:
    """Status of a session after a round, for display.

    Attributes:
        seconds, limit: time elapsed, and the time limit.
        current: the index of the task that was measured.
        speed: current speedup of the model, as far as kernel times show.
        expectation: forecast for the rest of the time; None with too few trials.
    """

    seconds: float
    limit: float
    trials: int
    current: int
    tasks: tuple[TaskState, ...]
    speed: float
    expectation: Expectation | None


Callback = Callable[[SessionState], object]
"""Called after each round; a true result ends the session."""


@dataclass(frozen=True)
class SessionSettings:
    """Parameters of a session.

    Attributes:
        batch: trials of a round.
        seed: equal seeds and times give equal sessions.
        worth: the session ends if the forecast gain is below this part of the model's time.
        model: hyperparameters of the learned model.
        prior: expected shape of curves.
    """

    batch: int = BATCH
    seed: int = 0
    worth: float = WORTH
    model: ModelSettings = field(default_factory=ModelSettings)
    prior: Prior = field(default_factory=Prior)


class Session:
    """Tunes a set of tasks.

    Args:
        tasks: what to tune, each with its search.
        measurer: measures candidates.
        rest_ns: time per model run spent outside of the tasks.
        keeper: stores trials.
        others: training examples of other workloads.
        clock: returns seconds; replaced in tests.
    """

    def __init__(
        self,
        tasks: Sequence[tuple[Task, TaskSearch]],
        measurer: Measurer,
        *,
        rest_ns: float = 0.0,
        keeper: TrialStorage | None = None,
        others: Sequence[ExampleGroup] = (),
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
        """The learned model of the last round."""
        return self._ranker

    @property
    def trials(self) -> int:
        """Number of trials made in this session."""
        return sum(search.progress.trials for _, search in self.tasks) - self._given

    def run(
        self, seconds: float, trials: int | None = None, callback: Callback | None = None
    ) -> None:
        """Tune for a number of seconds, and at most `trials` trials.

        `ended` is then the reason for the end: time, trials, nothing left, little left, asked or
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
        trials: list[SearchTrial] = []
        try:
            self._measure(task, search, proposals, trials, self._timed[number])
        finally:
            search.add(trials, self._clock() - start)

    def _measure(
        self,
        task: Task,
        search: TaskSearch,
        proposals: Sequence[Proposal],
        trials: list[SearchTrial],
        timed: dict[str, Outcome] | None = None,
    ) -> None:
        """Measure a batch; `trials` is extended with each outcome, so that an exception loses none.

        Args:
            timed: known outcomes by code, which is not run again; extended as well.
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
                search.proposer.forget(proposal)  # Not its fault: it may be tried again.
            else:
                trials.append(trial)
            if self._keeper is not None:
                self._keeper.keep(task, trial, outcome)
            if timed is not None and outcome.code is not None and outcome.status in _REPEATS:
                timed.setdefault(outcome.code.digest, replace(outcome, code=None))

        outcomes = self._measurer.measure(candidates, best=incumbent, done=done, timed=timed)
        for candidate, outcome in zip(candidates, outcomes, strict=True):
            done(candidate, outcome)

    def confirm(self) -> list[tuple[Task, SearchTrial]]:
        """Measure the best schedules of each task again, against each other; return the tasks for
        which one is faster than the default, largest gain first.

        An interrupted session skips the measurement.
        """
        found: list[tuple[Task, SearchTrial]] = []
        for task, search in self.tasks:
            finalists = self._finalists(search)
            again: list[SearchTrial] = []
            if finalists and self.ended != "interrupted":
                proposals = [Proposal(t.rule, t.choice, t.origin, t.score) for t in finalists]
                self._measure(task, search, proposals, again)
            sure = [trial for trial in again or finalists if is_faster(trial)]
            if sure:
                found.append((task, min(sure, key=lambda trial: trial.ratio)))
        return sorted(found, key=lambda each: each[0].weight * (each[1].ratio - 1))

    def _finalists(self, search: TaskSearch) -> list[SearchTrial]:
        """Return the fastest trials with distinct code, if any may be faster than the default."""
        found: dict[object, SearchTrial] = {}
        for trial in sorted(search.trials, key=lambda trial: trial.ratio):
            if trial.is_sure and trial.ratio < 1:
                found.setdefault(trial.digest or (trial.rule, *trial.choice.values()), trial)
        return list(found.values())[:FINALISTS]

    def _state(
        self, number: int, passed: float, seconds: float, trials: int | None
    ) -> SessionState:
        left = None if trials is None else max(trials - self.trials, 0)
        states = tuple(_task_state(task, search) for task, search in self.tasks)
        expected = self.scheduler.expect(max(seconds - passed, 0.0), left)
        return SessionState(
            passed, seconds, self.trials, number, states, self.scheduler.speed, expected
        )


def make_trial(proposal: Proposal, outcome: Outcome) -> SearchTrial:
    """Return the trial for a measured proposal."""
    return SearchTrial(
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


def is_faster(trial: SearchTrial) -> bool:
    """Whether a trial is significantly faster than the default."""
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
