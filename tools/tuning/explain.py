"""Description of a lock file's schedules for a model, compared with the defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff

from tcopt.dialects.sched import SequenceOp
from tcopt.dialects.target import TARGET_ATTRIBUTE
from tcopt.schedules.passes.schedule import find_schedule
from tcopt.schedules.rules.rule import facts_of, rules_for, target_kind
from tcopt.schedules.tuning.lock_file import LockFile
from tcopt.support.errors import TcoptError
from tcopt.tuner.arms import lowered
from tcopt.tuner.lock import differences
from tcopt.tuner.tasks import Task


@dataclass(frozen=True)
class ExplainedKernel:
    """A kernel of a model, and its entry in the lock file.

    Attributes:
        gain: speedup over the default when it was measured.
        rule: the rule that wrote the schedule.
        choice: differences from the default choice, `rows 8 -> 6, ...`.
        steps: the schedules' steps as a diff, the default's first.
    """

    name: str
    nodes: tuple[str, ...]
    gain: float
    rule: str
    choice: str
    steps: tuple[str, ...]

    def text(self, *, with_steps: bool = True) -> str:
        """Return the description as text."""
        where = f" ({', '.join(self.nodes[:3])}{', ...' if len(self.nodes) > 3 else ''})"
        head = f"{self.name}{where if self.nodes else ''}: {self.gain:.2f}x by {self.rule}"
        lines = [head, f"  {self.choice}"] if self.choice else [head]
        if with_steps:
            lines += [f"    {line}" for line in self.steps]
        return "\n".join(lines)


def explain_lock(lock: LockFile, tasks: Sequence[Task]) -> list[ExplainedKernel]:
    """Return what a lock file changes for a model, largest gain first.

    Args:
        tasks: of the model.
    """
    found: list[ExplainedKernel] = []
    for task in tasks:
        entry = lock.kernels.get((task.key, task.target_key))
        if entry is None or (not entry.has_steps and entry.choice is None):
            continue
        default = default_sequence(task)
        before = "" if default is None else str(default)
        after = str(entry.sequence)
        found.append(
            ExplainedKernel(
                task.name,
                task.nodes,
                entry.gain,
                entry.rule or "hand",
                differences(after, before),
                tuple(_steps_diff(before, after)) if entry.has_steps else (),
            )
        )
    return sorted(found, key=lambda each: -each.gain)


def default_sequence(task: Task) -> SequenceOp | None:
    """Return the schedule of a task without tuning; None if no rule applies."""
    function, module = lowered(task.text, task.phases)
    target = module.attributes.get(TARGET_ATTRIBUTE)
    try:
        schedule = find_schedule(function, rules_for(target_kind(target)), facts_of(target))
    except TcoptError:
        return None
    return None if schedule is None else schedule.sequence


def _steps_diff(before: str, after: str) -> list[str]:
    """Return the difference between two schedules' steps, as lines."""
    old, new = _steps(before), _steps(after)
    lines = list(unified_diff(old, new, "default", "tuned", lineterm="", n=1))
    return [line for line in lines if not line.startswith("@@")]


def _steps(text: str) -> list[str]:
    """Return the steps of a schedule as lines, without the enclosing op, whose name differs."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines[1:-1] if line]
