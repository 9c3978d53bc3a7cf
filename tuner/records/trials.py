"""Trials as stored in the records."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tcopt.schedules.tuning.workloads import key_of
from tcopt.support.errors import InputError
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.outcomes import OK, STATUSES, Outcome, median
from tcopt.tuner.tasks import Task

Row = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """The outcome of a schedule of a workload on a machine.

    Attributes:
        id: a hash of all other fields.
        workload, target, machine: keys.
        schedule: a hash of the steps, empty if there are none; `sequence`: the steps.
        rule, choice: the rule that wrote the steps, and its choice.
        features_version: version of the feature columns that ranked the choice.
        status, ns, low, high, hopeless, error: as in `Outcome`.
        median_ns, mad_ns, default_ns: None if it did not run.
        object_hash: hash of the code.
        code_version: version of the compiler; `options`: other inputs of the code.
        run: identifies the session; `at`: seconds since 1970.
    """

    workload: str
    target: str
    machine: str
    status: str
    rule: str = ""
    choice: Mapping[str, int | str] = field(default_factory=dict[str, int | str])
    schedule: str = ""
    sequence: str = ""
    ns: tuple[float, ...] = ()
    median_ns: float | None = None
    mad_ns: float | None = None
    default_ns: float | None = None
    low: float = 0.0
    high: float = 0.0
    hopeless: bool = False
    error: str = ""
    compile_s: float = 0.0
    object_hash: str = ""
    code_version: str = ""
    features_version: int = 0
    options: str = ""
    run: str = ""
    at: float = 0.0
    id: str = ""

    @property
    def ratio(self) -> float:
        """Its time relative to the default's; infinite if it did not run."""
        if self.status != OK or not self.median_ns or not self.default_ns:
            return math.inf
        if self.low and self.high:
            return math.sqrt(self.low * self.high)
        return self.median_ns / self.default_ns

    def row(self) -> Row:
        """Return the trial as a row of the database table."""
        found = {name: value for name, value in vars(self).items() if name != "sequence"}
        return found | {"ns": list(self.ns), "choice": dict(self.choice)}

    @classmethod
    def of(cls, row: Mapping[str, Any], sequence: str = "") -> Trial:
        """Return the trial stored in a database row."""
        values: dict[str, Any] = {**row, "ns": tuple(row["ns"]), "sequence": sequence}
        return cls(**values)

    def with_id(self) -> Trial:
        """Return the trial with its id set to the hash of its content."""
        content = json.dumps({**self.row(), "id": ""}, sort_keys=True)
        return replace(self, id=hashlib.blake2b(content.encode(), digest_size=16).hexdigest())

    def check(self) -> None:
        """Check that the trial is consistent.

        Raises:
            InputError: the id does not match the content, or a value is invalid.
        """
        if self.id != self.with_id().id:
            raise InputError(f"trial {self.id} was changed after it was written")
        if not all(type(value) in (int, str) for value in self.choice.values()):
            raise InputError(f"trial {self.id} has a choice that is neither integer nor string")
        if self.status not in STATUSES:
            raise InputError(f"trial {self.id} has the unknown status '{self.status}'")
        numbers = (*self.ns, self.median_ns or 0.0, self.default_ns or 0.0, self.at)
        if not all(math.isfinite(n) and n >= 0 for n in numbers):
            raise InputError(f"trial {self.id} has invalid times")
        if self.sequence and self.schedule != key_of(self.sequence):
            raise InputError(f"trial {self.id} has a schedule that does not match its hash")


@dataclass(frozen=True)
class Setting:
    """Properties shared by all trials of a session.

    Attributes:
        machine: facts, see `machine_facts`.
        code_version: version of the compiler.
        options: other inputs of the code besides the target, such as threads, as text.
        run: name of the session.
        features_version: version of the feature columns.
    """

    machine: Mapping[str, Any]
    code_version: str
    options: str = ""
    run: str = ""
    features_version: int = 0

    @property
    def machine_key(self) -> str:
        """Key of the machine: a hash of its facts."""
        return key_of(json.dumps(dict(self.machine), sort_keys=True))


def trial_of(candidate: Candidate, outcome: Outcome, setting: Setting, at: float) -> Trial:
    """Return the record of an outcome."""
    task, code = candidate.task, outcome.code
    sequence = candidate.sequence or (code.sequence if code is not None else "")
    return Trial(
        workload=task.key,
        target=task.target_key,
        machine=setting.machine_key,
        status=outcome.status,
        rule=candidate.rule or (code.rule if code is not None else ""),
        choice=dict(candidate.choice or {}),
        schedule=key_of(sequence) if sequence else "",
        sequence=sequence,
        ns=tuple(round(t, 1) for t in outcome.ns),
        median_ns=median(outcome.ns) if outcome.ns else None,
        mad_ns=outcome.mad_ns if outcome.ns else None,
        default_ns=median(outcome.default_ns) if outcome.default_ns else None,
        low=outcome.low,
        high=outcome.high,
        hopeless=outcome.hopeless,
        error=outcome.error,
        compile_s=code.seconds if code is not None else 0.0,
        object_hash=code.digest if code is not None else "",
        code_version=setting.code_version,
        features_version=setting.features_version,
        options=setting.options,
        run=setting.run,
        at=at,
    ).with_id()


def task_rows(task: Task) -> tuple[Row, Row]:
    """Return the rows of a task's workload and target."""
    workload = {
        "key": task.key,
        "anchor": task.anchor,
        "name": task.name,
        "te_text": task.te_text,
        "ops": float(task.work),
        "bytes": float(task.bytes),
    }
    return workload, {"key": task.target_key, "text": task.target}
