"""A schedule that somebody wants to know the time of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tcopt.tuner.tasks import Task


@dataclass(frozen=True)
class Candidate:
    """A schedule of a task: a choice of a rule, or the steps themselves.

    Attributes:
        rule: its name; empty for the default schedule, unless there is a sequence.
        choice: a value for each knob of the rule's space.
        sequence: a `sched.sequence` as text, which is replayed instead.
    """

    task: Task
    rule: str = ""
    choice: Mapping[str, int | str] | None = None
    sequence: str = ""

    @property
    def is_default(self) -> bool:
        """Whether it is what a compile without tuning takes."""
        return not self.rule and not self.sequence

    @property
    def key(self) -> str:
        """Tells candidates of one task apart."""
        if self.sequence:
            return self.sequence
        choice = sorted((self.choice or {}).items())
        return f"{self.rule} {' '.join(f'{name}={value}' for name, value in choice)}"
