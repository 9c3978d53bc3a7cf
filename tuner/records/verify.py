"""Measurement of records of other machines or compiler versions again on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.measurer import Measurer
from tcopt.tuner.measure.outcomes import Outcome
from tcopt.tuner.records.store import Store
from tcopt.tuner.records.trials import Setting, Trial, trial_of
from tcopt.tuner.tasks import Task


@dataclass(frozen=True)
class Verified:
    """A record, and the outcome of its schedule on this machine."""

    task: Task
    trial: Trial
    outcome: Outcome


def verify_records(
    store: Store,
    tasks: Sequence[Task],
    measurer: Measurer,
    setting_of: Callable[[Task], Setting],
    *,
    count: int = 3,
    done: Callable[[Verified], None] | None = None,
) -> list[Verified]:
    """Measure the best recorded schedules of some tasks.

    Outcomes are stored as trials of this machine. Schedules for all targets are tried, the task's
    own target first; those that do not apply end as `invalid`.

    Args:
        setting_of: returns the setting shared by a task's trials.
        count: schedules for each task.
    """
    found: list[Verified] = []
    for task in tasks:
        trials = _best(store, task, count)
        if not trials:
            continue
        setting = setting_of(task)
        candidates = [Candidate(task, sequence=trial.sequence) for trial in trials]
        outcomes = measurer.measure([*candidates, Candidate(task)])
        records = [
            trial_of(candidate, outcome, setting, time.time())
            for candidate, outcome in zip([*candidates, Candidate(task)], outcomes, strict=True)
        ]
        store.add(task, records, setting)
        for trial, outcome in zip(trials, outcomes, strict=False):
            verified = Verified(task, trial, outcome)
            found.append(verified)
            if done is not None:
                done(verified)
    return found


def _best(store: Store, task: Task, count: int) -> list[Trial]:
    trials = [t for t in store.trials(workloads=[task.key], status="ok") if t.sequence]
    trials.sort(key=lambda t: (t.target != task.target_key, t.ratio))
    found: dict[str, Trial] = {}
    for trial in trials:
        found.setdefault(trial.schedule, trial)
    return list(found.values())[:count]
