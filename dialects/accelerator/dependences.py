"""Dependences between the tasks of an instruction stream.

The order of the stream defines the semantics of the program. For each task it suffices to know,
for each other unit, the last earlier task that accesses the same data: that unit executes its
tasks in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.accelerator.tasks import Access, Machine, Task

END = "end"
"""The kind of dependence of the end of a program."""


@dataclass(frozen=True, order=True)
class Dependence:
    """A task that must finish before a task of another unit starts.

    Attributes:
        first, second: their positions in the stream.
        kind: `RAW`, `WAR`, `WAW`, or `end`.
        space: the memory that both access.
    """

    first: int
    second: int
    kind: str
    space: str = ""

    def __str__(self) -> str:
        reason = " ".join(filter(None, (self.kind, self.space)))
        return f"{self.second} after {self.first} ({reason})"


def dependences_of(machine: Machine, tasks: Sequence[Task]) -> list[Dependence]:
    """Return the dependences of each task on the last conflicting task of each other unit.

    The end of a program depends on the last task of every unit.
    """
    return list(_Finder(machine, tasks).run())


class _Finder:
    """Records, per unit, the last task that read or wrote each entry while traversing a stream."""

    def __init__(self, machine: Machine, tasks: Sequence[Task]):
        self.machine = machine
        self.tasks = tasks
        self.written = {access.space for task in tasks for access in task.writes}
        self.last: dict[tuple[str, str, bool], NDArray[np.int32]] = {}
        self.newest: dict[str, int] = {}

    def run(self) -> Iterator[Dependence]:
        for task in self.tasks:
            for unit in self.machine.units:
                if unit != task.unit and (found := self.last_before(task, unit)) is not None:
                    yield found
            self.note(task)

    def last_before(self, task: Task, unit: str) -> Dependence | None:
        """Return the dependence of a task on the last conflicting task of a unit."""
        if task.is_end:
            last = self.newest.get(unit)
            return None if last is None else Dependence(last, task.number, END)
        found: Dependence | None = None
        for access, is_write in self.accesses(task):
            for of_write in (True, False) if is_write else (True,):
                last = self.last.get((unit, access.space, of_write))
                number = -1 if last is None else int(last[access.entries].max(initial=-1))
                if number > (-1 if found is None else found.first):
                    kind = ("RAW", "WAW")[is_write] if of_write else "WAR"
                    found = Dependence(number, task.number, kind, access.space)
        return found

    def accesses(self, task: Task) -> Iterator[tuple[Access, bool]]:
        """Yield the accesses of a task and whether they write, without reads of constant data."""
        for access in task.writes:
            yield access, True
        for access in task.reads:
            if access.space in self.written:
                yield access, False

    def note(self, task: Task) -> None:
        self.newest[task.unit] = task.number
        for access, is_write in self.accesses(task):
            key = (task.unit, access.space, is_write)
            if key not in self.last:
                self.last[key] = np.full(self.machine.spaces[access.space], -1, np.int32)
            self.last[key][access.entries] = task.number
