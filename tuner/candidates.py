"""Candidates: schedules whose time is to be measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tcopt.tuner.tasks import Task


@dataclass(frozen=True)
class Candidate:
    """A schedule of a task: a choice in a rule's space, or an explicit sequence of steps.

    Attributes:
        rule: name of the rule; empty for the default schedule or if there is a sequence.
        choice: a value for each knob of the rule's space.
        sequence: a `sched.sequence` as text, which is replayed instead of running a rule.
    """

    task: Task
    rule: str = ""
    choice: Mapping[str, int | str] | None = None
    sequence: str = ""

    @property
    def is_default(self) -> bool:
        """Whether this is the schedule of a compile without tuning."""
        return not self.rule and not self.sequence

    @property
    def key(self) -> str:
        """Key that identifies the candidate within its task."""
        if self.sequence:
            return self.sequence
        choice = sorted((self.choice or {}).items())
        return f"{self.rule} {' '.join(f'{name}={value}' for name, value in choice)}"
