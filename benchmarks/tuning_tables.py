"""Tables of measured choices of a kernel, from which searches are replayed without a clock.

A table has random choices, which random search can find, and those that learned searches led to,
which are hidden from random search. So a replayed search finds what a real one would find, within
the table; it takes no time, and has no noise.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path

import numpy as np

from tcopt.schedules.spaces.space import Choice
from tcopt.support.errors import InputError
from tcopt.tuner.arms import arms_of
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import Measurer, Progress
from tcopt.tuner.measure.outcomes import CRASH, OK, Outcome
from tcopt.tuner.model import ModelSettings, Ranker
from tcopt.tuner.scheduler import Progress as TaskProgress
from tcopt.tuner.search.moves import Points
from tcopt.tuner.search.proposer import Arm, Proposal, Proposer
from tcopt.tuner.session import Session, SessionSettings
from tcopt.tuner.task_search import SearchTrial, TaskSearch
from tcopt.tuner.tasks import Task

DRAWN = "drawn"
"""Origins of rows that random search may find."""

ROUND = 16
"""Choices measured together."""

PARTS = (0.35, 0.25, 0.1)
"""Fractions of the rows: random over all rules, random of the default's rule, best by estimate; a
model finds the rest."""

_WIDTH = 0.005
"""Half the confidence interval of a replayed time, relative to it."""


@dataclass(frozen=True)
class Row:
    """A choice, its time relative to the default's (none if it failed), and its origin."""

    rule: str
    choice: Choice
    ratio: float | None
    source: str


@dataclass(frozen=True)
class CaseTable:
    """The measurements of a case's kernel."""

    case: str
    rows: tuple[Row, ...]

    @classmethod
    def read(cls, path: Path) -> CaseTable:
        """Read a table from a file.

        Raises:
            InputError: the file is not a table.
        """
        try:
            found = json.loads(gzip.decompress(path.read_bytes()))
            return cls(found["case"], tuple(Row(**row) for row in found["rows"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"'{path}' is not a table of choices: {error}") from None

    def write(self, path: Path) -> None:
        """Write the table to a file."""
        text = json.dumps({"case": self.case, "rows": [asdict(row) for row in self.rows]})
        path.write_bytes(gzip.compress(text.encode(), mtime=0))


class _Recorder(Session):
    """Measurer for batches of one task, which records the results."""

    def measure(self, proposals: Sequence[Proposal], source: str, sources: dict[str, str]) -> None:
        task, search = self.tasks[0]
        trials: list[SearchTrial] = []
        self._measure(task, search, proposals, trials, self._timed[0])
        search.add(trials, 1.0)
        for trial in trials:
            sources[_key(trial.rule, trial.choice)] = source


def record(case: str, task: Task, count: int, measurer: Measurer, seed: int = 0) -> CaseTable:
    """Measure about the given number of choices of a task."""
    search = TaskSearch(task.key, arms_of(task), TaskProgress(1.0, 0), seed=seed)
    recorder = _Recorder([(task, search)], measurer, settings=SessionSettings(seed=seed))
    proposer, sources = search.proposer, dict[str, str]()
    rng = np.random.default_rng(seed)
    recorder.measure([proposer.default(), *proposer.single()], "default", sources)

    def some(part: float) -> range:
        return range(max(round(part * count / ROUND), 1))

    first = proposer.arms[0]
    for _ in some(PARTS[0]):
        recorder.measure(proposer.random(ROUND), DRAWN, sources)
    for _ in some(PARTS[1]):
        recorder.measure(first.proposals(first.draw(ROUND, rng), DRAWN), DRAWN, sources)
    for _ in some(PARTS[2]):
        recorder.measure(proposer.best_by_estimate(ROUND), "estimate", sources)
    ranker = Ranker(ModelSettings(seed=seed))
    for _ in some(1 - sum(PARTS)):
        ranker.learn(search.groups(), search.key, len(search.trials))
        if ranker.is_ready:
            recorder.measure(search.propose(ROUND, ranker), "model", sources)
    rows: dict[str, Row] = {}
    for trial in search.trials:
        key = _key(trial.rule, trial.choice)
        ratio = trial.part if trial.part < inf else None
        rows.setdefault(key, Row(trial.rule, dict(trial.choice), ratio, sources[key]))
    return CaseTable(case, tuple(rows.values()))


class TableArm(Arm):
    """A rule restricted to the choices of a table; random ones are those drawn at random."""

    def __init__(self, arm: Arm, points: Points, drawn: Points):
        super().__init__(arm.rule, arm.space, arm.features.machine, points)
        self._drawn = drawn

    def draw(self, count: int, rng: np.random.Generator) -> Points:
        if not len(self._drawn):
            return self._drawn
        return self._drawn[rng.integers(0, len(self._drawn), count)]


class TableMeasurer:
    """Measurer that returns a table's times, with some noise.

    Args:
        noise: standard deviation of the logarithm of a time.
    """

    def __init__(self, table: CaseTable, noise: float = 0.0, seed: int = 0):
        self._ratios = {_key(row.rule, row.choice): row.ratio for row in table.rows}
        self._noise, self._rng = noise, np.random.default_rng(seed)

    def true_ratio(self, rule: str, choice: Choice) -> float:
        """Return a time relative to the default's, infinite if it failed."""
        found = self._ratios.get(_key(rule, choice))
        return inf if found is None else found

    def measure(
        self,
        candidates: Sequence[Candidate],
        *,
        best: Candidate | None = None,
        done: Progress | None = None,
        timed: Mapping[str, Outcome] | None = None,
    ) -> list[Outcome]:
        """Return the outcome of each candidate."""
        del best, timed
        found = [self._outcome(each) for each in candidates]
        for candidate, outcome in zip(candidates, found, strict=True):
            if done is not None:
                done(candidate, outcome)
        return found

    def _outcome(self, candidate: Candidate) -> Outcome:
        choice = {name: int(value) for name, value in (candidate.choice or {}).items()}
        ratio = self.true_ratio(candidate.rule, choice)
        if ratio == inf:
            return Outcome(CRASH, "it failed when the table was made")
        ratio *= float(np.exp(self._rng.normal(0, self._noise)))
        low, high = ratio * (1 - _WIDTH), ratio * (1 + _WIDTH)
        return Outcome(OK, "", (ratio,), (1.0,), low, high)

    def close(self) -> None:
        """Nothing to close."""


def table_arms(task: Task, table: CaseTable) -> list[Arm]:
    """Return the rules of a task restricted to the choices of a table, if it has some."""
    arms: list[Arm] = []
    for arm in arms_of(task):
        rows = [row for row in table.rows if row.rule == arm.rule and _is_choice(arm, row.choice)]
        if not rows:
            continue
        points = np.stack([arm.space.point(row.choice) for row in rows])
        drawn = np.flatnonzero([row.source == DRAWN for row in rows])
        arms.append(TableArm(arm, points, points[drawn]))
    if not arms or not Proposer(arms).arms[0].is_open:
        raise InputError(f"the table of {table.case} has no choices of the rules that take it")
    return arms


def _is_choice(arm: Arm, choice: Choice) -> bool:
    try:
        arm.space.check(choice)
    except InputError:
        return False
    return True


def _key(rule: str, choice: Choice) -> str:
    return f"{rule} {sorted(choice.items())}"
