"""Records of earlier sessions, and the database to which this session's trials are added."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from types import TracebackType
from typing import Any

import numpy as np

from tcopt.compiler.fingerprint import fingerprint
from tcopt.schedules.spaces.space import Choice
from tcopt.support.errors import InputError, TcoptError
from tcopt.tuner.arms import arms_in, lowered
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.features import VERSION
from tcopt.tuner.forecast import Prior, prior_of
from tcopt.tuner.measure.outcomes import LOST, OK, Outcome
from tcopt.tuner.measure.simulated import is_simulated, simulated_machine
from tcopt.tuner.model import ExampleGroup
from tcopt.tuner.records import trials as records
from tcopt.tuner.records.machine import machine_facts
from tcopt.tuner.records.staleness import Standing, standing
from tcopt.tuner.records.store import Store
from tcopt.tuner.records.trials import Setting, trial_of
from tcopt.tuner.search.proposer import Arm
from tcopt.tuner.task_search import SearchTrial
from tcopt.tuner.tasks import Task

WINNERS = 4
"""Number of good schedules tried first, from tasks with the same main stage."""

MOST_WORKLOADS = 48
"""Maximum number of other workloads to learn from, those with the most trials."""

MOST_TRIALS = 256
"""Maximum number of trials to learn from in each of these workloads."""

ROUND = 8
"""Number of consecutive trials treated as a round."""

_LEAST_TRIALS = 8
_RUN_S = 0.2
"""Approximate run time of a trial in seconds, excluding compilation."""


class Past:
    """Records of earlier sessions, to which this session's trials are added.

    Args:
        threads: number of threads that kernels run on; times are valid only for that number.
        run: the name of this session.
        machine: facts of the measuring machine, by default this one.
    """

    def __init__(
        self,
        store: Store,
        threads: int,
        run: str = "",
        machine: Mapping[str, Any] | None = None,
    ):
        self.store = store
        self.setting = Setting(
            machine or machine_facts(),
            fingerprint(),
            f"threads={threads}",
            run or uuid.uuid4().hex,
            VERSION,
        )
        self._standings: dict[str, Standing] = {}

    @classmethod
    def open(
        cls,
        address: str | None,
        threads: int,
        run: str = "",
        machine: Mapping[str, Any] | None = None,
    ) -> Past:
        """Open the records at an address, by default the user's.

        Raises:
            InputError: there is no such database.
        """
        return cls(Store(address), threads, run, machine)

    def __enter__(self) -> Past:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.store.close()

    def setting_of(self, task: Task) -> Setting:
        """Return the setting shared by a task's trials; a simulated task has its own machine."""
        if not is_simulated(task):
            return self.setting
        return replace(self.setting, machine=simulated_machine(task), options="")

    def machine_of(self, task: Task) -> str:
        """Return the key of the machine that a task is measured on."""
        return self.setting_of(task).machine_key

    def keep(self, task: Task, trial: SearchTrial, outcome: Outcome) -> None:
        """Store a trial of this session; it is on disk when this returns, or soon after if the
        database is busy.
        """
        candidate, setting = Candidate(task, trial.rule, trial.choice), self.setting_of(task)
        self.store.add(task, [trial_of(candidate, outcome, setting, time.time())], setting)

    def trials(self, task: Task) -> list[tuple[list[SearchTrial], float]]:
        """Return rounds of earlier trials by this compiler on this machine, oldest first, with the
        approximate duration of each.
        """
        fresh = sorted(self._own(task, self._standing(task).fresh), key=lambda each: each.at)
        return [
            ([trial_from(each) for each in part], sum(each.compile_s + _RUN_S for each in part))
            for part in _parts(fresh)
        ]

    def winners(self, task: Task) -> list[tuple[str, Choice]]:
        """Return schedules to try first: the best by other versions of the compiler, and the best
        of tasks with the same main stage.
        """
        found = list(self._standing(task).again)
        for row in self.store.workloads(anchor=task.anchor):
            if row["key"] != task.key:
                best = self.store.best(row["key"], task.target_key, count=WINNERS)
                found += [each for each in best if each.ratio < 1]
        found.sort(key=lambda each: each.ratio)
        return [(each.rule, choice_of(each)) for each in found if each.rule and each.choice]

    def groups(self, tasks: Sequence[Task]) -> list[ExampleGroup]:
        """Return training examples of other workloads for the same target, and of other compiler
        versions.

        Their spaces are rebuilt from the stored texts; choices that no longer exist are dropped.
        """
        own = {task.key for task in tasks}
        found: list[ExampleGroup] = []
        for first in {task.target_key: task for task in reversed(tasks)}.values():
            for key, text in self._others(first, own):
                chosen = self.store.trials(workloads=[key], target=first.target_key)
                found += self._examples(key, text, first, chosen)
        for task in tasks:
            module = task.text
            found += self._examples(task.key, module, task, self._standing(task).stale)
        return found

    def prior(self, tasks: Sequence[Task]) -> Prior:
        """Return a prior from the curves of other workloads on this machine."""
        histories: list[list[list[float]]] = []
        own = {task.key for task in tasks}
        for key, _ in self._others(tasks[0], own) if tasks else ():
            trials = self.store.trials(workloads=[key], target=tasks[0].target_key)
            machine = self.machine_of(tasks[0])
            here = [each for each in self._own(tasks[0], trials) if each.machine == machine]
            ratios = [trial_from(each).part for each in sorted(here, key=lambda each: each.at)]
            histories.append([ratios])
        return prior_of(histories)

    def _standing(self, task: Task) -> Standing:
        if task.key not in self._standings:
            version = self.setting.code_version
            self._standings[task.key] = standing(
                self.store, task.key, task.target_key, version, machine=self.machine_of(task)
            )
        return self._standings[task.key]

    def _own(self, task: Task, trials: Sequence[records.Trial]) -> list[records.Trial]:
        """Return the trials measured with this session's number of threads, without lost ones."""
        wanted = self.setting_of(task).options
        return [each for each in trials if each.options == wanted and each.status != LOST]

    def _others(self, task: Task, own: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield keys and modules of other workloads, those with the most trials first."""
        counts: dict[str, int] = {}
        for trial in self.store.trials(target=task.target_key):
            counts[trial.workload] = counts.get(trial.workload, 0) + 1
        texts = {row["key"]: row["te_text"] for row in self.store.workloads()}
        chosen = [k for k in counts if k not in own and k in texts and counts[k] >= _LEAST_TRIALS]
        for key in sorted(chosen, key=lambda key: (-counts[key], key))[:MOST_WORKLOADS]:
            head = f"builtin.module attributes {{tcopt.target = {task.target}}}"
            yield key, f"{head} {{\n{texts[key]}\n}}"

    def _examples(
        self, key: str, text: str, task: Task, trials: Sequence[records.Trial]
    ) -> list[ExampleGroup]:
        kept = sorted(self._own(task, trials), key=lambda each: each.at)[-MOST_TRIALS:]
        if len(kept) < 2:
            return []
        try:
            arms = {arm.rule: arm for arm in arms_in(*lowered(text, task.phases))}
        except TcoptError:
            return []  # Skip a workload that this version cannot read.
        by_machine: dict[str, list[tuple[Arm, SearchTrial]]] = {}
        for each in kept:
            arm = arms.get(each.rule)
            if arm is not None and _is_choice(arm, choice_of(each)):
                by_machine.setdefault(each.machine, []).append((arm, trial_from(each)))
        return [_group(key, machine, own) for machine, own in by_machine.items()]


def trial_from(record: records.Trial) -> SearchTrial:
    """Convert a record to a trial."""
    ran = record.status == OK and record.ratio > 0
    return SearchTrial(
        record.rule,
        choice_of(record),
        "record",
        record.status,
        record.ratio if ran else inf,
        0.0,
        record.low,
        record.high,
        record.median_ns if ran and record.median_ns else inf,
        record.object_hash,
        record.error,
        record.sequence,
    )


def choice_of(record: records.Trial) -> dict[str, int]:
    """Return the values of knobs; records of other versions may have non-numeric ones, which are
    dropped.
    """
    return {name: value for name, value in record.choice.items() if isinstance(value, int)}


def _group(key: str, machine: str, examples: Sequence[tuple[Arm, SearchTrial]]) -> ExampleGroup:
    features = [arm.features(arm.space.point(trial.choice)[None])[0] for arm, trial in examples]
    speeds = np.asarray([1 / trial.part for _, trial in examples])
    return ExampleGroup(key, machine, np.stack(features), speeds)


def _is_choice(arm: Arm, choice: Choice) -> bool:
    try:
        arm.space.check(choice)
    except InputError:
        return False
    return True


def _parts(trials: Sequence[records.Trial]) -> list[Sequence[records.Trial]]:
    return [trials[i : i + ROUND] for i in range(0, len(trials), ROUND)]
