"""What a lock file says of a model's kernels, as people read it: each against the default."""

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
    """A kernel of a model, and what its lock file says of it.

    Attributes:
        gain: how many times as fast as the default it was when it was measured.
        rule: what wrote the schedule.
        choice: what was chosen otherwise than by default, `rows 8 -> 6, ...`.
        steps: the schedules' steps as a diff, the default's first.
    """

    name: str
    nodes: tuple[str, ...]
    gain: float
    rule: str
    choice: str
    steps: tuple[str, ...]

    def text(self, *, with_steps: bool = True) -> str:
        """A paragraph."""
        where = f" ({', '.join(self.nodes[:3])}{', ...' if len(self.nodes) > 3 else ''})"
        head = f"{self.name}{where if self.nodes else ''}: {self.gain:.2f}x by {self.rule}"
        lines = [head, f"  {self.choice}"] if self.choice else [head]
        if with_steps:
            lines += [f"    {line}" for line in self.steps]
        return "\n".join(lines)


def explain_lock(lock: LockFile, tasks: Sequence[Task]) -> list[ExplainedKernel]:
    """What a lock file changes of a model, the kernels that gain most first.

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
    """The schedule that a task has without tuning; None where no rule takes it."""
    function, module = lowered(task.text, task.phases)
    target = module.attributes.get(TARGET_ATTRIBUTE)
    try:
        schedule = find_schedule(function, rules_for(target_kind(target)), facts_of(target))
    except TcoptError:
        return None
    return None if schedule is None else schedule.sequence


def _steps_diff(before: str, after: str) -> list[str]:
    """What is otherwise between two schedules' steps, a line each."""
    old, new = _steps(before), _steps(after)
    lines = list(unified_diff(old, new, "default", "tuned", lineterm="", n=1))
    return [line for line in lines if not line.startswith("@@")]


def _steps(text: str) -> list[str]:
    """The lines inside of a schedule: what is around them differs in names alone."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines[1:-1] if line]
