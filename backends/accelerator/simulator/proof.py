"""Proof that tokens enforce all dependences, whatever the duration of tasks.

Units execute in order, and each token queue has one producer and one consumer, so the n-th pop
matches the n-th push in every interleaving: the happens-before relation is always the same. One
pass with a vector clock over the units decides for every pair of accesses whether it is ordered,
by comparison with the last accesses of each other unit.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.accelerator.tasks import Access, Machine, Task

Clock = tuple[int, ...]
"""For each unit, the number of its tasks that are known to be done."""


@dataclass(frozen=True)
class Fault:
    """An error of a program in some interleaving.

    Attributes:
        kind: `race`, `deadlock`, `token left`, `overflow` or `unfinished`.
        tasks: the tasks involved, the erroneous one first.
    """

    kind: str
    message: str
    tasks: tuple[int, ...]


@dataclass
class Proof:
    """Result of the proof of a program.

    Attributes:
        faults: empty for a correct program.
        before: for each task, how many tasks of each unit are done when it starts; tasks that
            never start are missing.
        fullest: for each queue, the maximum number of tokens in it.
    """

    faults: list[Fault] = field(default_factory=list[Fault])
    before: dict[int, Clock] = field(default_factory=dict[int, Clock])
    fullest: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def holds(self) -> bool:
        return not self.faults


def prove(machine: Machine, tasks: Sequence[Task], *, limit: int = 10) -> Proof:
    """Find races, deadlocks, unconsumed tokens, queue overflows, and tasks that may still run when
    the program ends.

    Args:
        limit: maximum number of faults to find.
    """
    proof = Proof()
    order = _execution_order(machine, tasks, proof)
    happens = _HappensBefore(machine, tasks, proof)
    races = _Races(machine, tasks, proof)
    for number in order:
        clock = happens.start(tasks[number])
        proof.before[number] = clock
        races.look(tasks[number], clock)
        happens.finish(tasks[number], clock)
        if len(proof.faults) >= limit:
            return proof
    if len(order) == len(tasks):
        happens.look_at_end()
    return proof


def _execution_order(machine: Machine, tasks: Sequence[Task], proof: Proof) -> list[int]:
    """Return the tasks in an order in which they can run, given the capacity of command queues.

    Whether all tasks run does not depend on which runnable task is chosen.
    """
    queues: dict[str, deque[int]] = {unit: deque() for unit in machine.units}
    tokens: dict[str, int] = defaultdict(int)
    done: set[int] = set()
    order: list[int] = []
    fetched, moved = 0, True
    while moved:
        moved = False
        while fetched < len(tasks):
            queue = queues[tasks[fetched].unit]
            # One more instruction is in the unit itself, which may wait for tokens.
            if len(queue) > machine.fetch.depth:
                break
            queue.append(fetched)
            fetched, moved = fetched + 1, True
        for queue in queues.values():
            while queue and _is_ready(tasks[queue[0]], tokens, done):
                task = tasks[queue.popleft()]
                for name in task.pops:
                    tokens[name] -= 1
                for name in task.pushes:
                    tokens[name] += 1
                done.add(task.number)
                order.append(task.number)
                moved = True
    for unit, queue in queues.items():
        if queue:
            proof.faults.append(_deadlock(unit, tasks[queue[0]], tokens, done))
    return order


def _is_ready(task: Task, tokens: dict[str, int], done: set[int]) -> bool:
    return all(tokens[name] > 0 for name in task.pops) and done.issuperset(task.after)


def _deadlock(unit: str, task: Task, tokens: dict[str, int], done: set[int]) -> Fault:
    missing = [f"a token of {name}" for name in task.pops if tokens[name] <= 0]
    missing += [f"task {number}" for number in task.after if number not in done]
    return Fault(
        "deadlock",
        f"the {unit} unit waits forever for {' and '.join(missing)}: {task.text}",
        (task.number,),
    )


class _HappensBefore:
    """Vector clocks of tasks and tokens."""

    def __init__(self, machine: Machine, tasks: Sequence[Task], proof: Proof):
        self.machine = machine
        self.tasks = tasks
        self.proof = proof
        self.index = {unit: n for n, unit in enumerate(machine.units)}
        self.now: dict[str, Clock] = {unit: (0,) * len(machine.units) for unit in machine.units}
        self.after: dict[int, Clock] = {}
        self.tokens: dict[str, deque[tuple[Clock, int]]] = defaultdict(deque)
        self.popped: dict[str, list[int]] = defaultdict(list)
        """For each queue, the position of the consumer's task that made each pop."""
        self.pushed: dict[str, int] = defaultdict(int)
        self.needed = {number for task in tasks for number in task.after}

    def start(self, task: Task) -> Clock:
        """Return the tasks that are known to be done when a task starts."""
        clock = self.now[task.unit]
        for name in task.pops:
            sent, _ = self.tokens[name].popleft()
            clock = _join(clock, sent)
            self.popped[name].append(self.now[task.unit][self.index[task.unit]])
        for number in task.after:
            clock = _join(clock, self.after[number])
        return clock

    def finish(self, task: Task, clock: Clock) -> None:
        """Mark a task as done; its tokens carry the current clock."""
        mine = self.index[task.unit]
        clock = (*clock[:mine], clock[mine] + 1, *clock[mine + 1 :])
        self.now[task.unit] = clock
        if task.number in self.needed:
            self.after[task.number] = clock
        for name in task.pushes:
            self.tokens[name].append((clock, task.number))
            self.pushed[name] += 1
            self._look_at_depth(name, task, clock)
        if task.is_end:
            self._look_at_rest(task, clock)

    def _look_at_depth(self, name: str, task: Task, clock: Clock) -> None:
        queue = self.machine.queues[name]
        known = clock[self.index[queue.consumer]]
        popped = self.popped[name]
        # Pops are in the order of the consumer's tasks.
        gone = int(np.searchsorted(popped, known)) if popped else 0
        most = self.pushed[name] - gone
        fullest = self.proof.fullest
        if most > fullest.get(name, 0):
            fullest[name] = most
            if most == queue.depth + 1:
                text = f"{name} may hold {most} tokens, it has room for {queue.depth}: {task.text}"
                self.proof.faults.append(Fault("overflow", text, (task.number,)))

    def _look_at_rest(self, end: Task, clock: Clock) -> None:
        """Check that every task is done when the program ends."""
        counts = {unit: 0 for unit in self.machine.units}
        for task in self.tasks:
            place = counts[task.unit]
            counts[task.unit] += 1
            if place >= clock[self.index[task.unit]]:
                text = f"may not be done when the program is over: {task.text}"
                self.proof.faults.append(Fault("unfinished", text, (task.number, end.number)))
                return

    def look_at_end(self) -> None:
        """Check that no token is left."""
        for name, left in self.tokens.items():
            if left:
                number = left[0][1]
                text = f"{len(left)} tokens of {name} are left at the end, the first one of "
                text += self.tasks[number].text
                self.proof.faults.append(Fault("token left", text, (number,)))


def _join(left: Clock, right: Clock) -> Clock:
    return tuple(map(max, left, right))


class _Races:
    """The last accesses of each unit to each entry, by the position of the task in its unit."""

    def __init__(self, machine: Machine, tasks: Sequence[Task], proof: Proof):
        self.machine = machine
        self.proof = proof
        self.index = {unit: n for n, unit in enumerate(machine.units)}
        self.written = {access.space for task in tasks for access in task.writes}
        self.last: dict[tuple[str, str, bool], NDArray[np.int32]] = {}
        self.by_unit: dict[str, list[Task]] = {unit: [] for unit in machine.units}

    def look(self, task: Task, clock: Clock) -> None:
        """Compare a task with earlier accesses, and record its own."""
        place = len(self.by_unit[task.unit])
        for access, is_write in self._accesses(task):
            other = self._unordered(task.unit, access, is_write, clock)
            if other is not None:
                self._report(task, other, access)
                break
        for access, is_write in self._accesses(task):
            self._last(task.unit, access.space, is_write)[access.entries] = place
        self.by_unit[task.unit].append(task)

    def _accesses(self, task: Task) -> Iterator[tuple[Access, bool]]:
        for access in task.writes:
            yield access, True
        for access in task.reads:
            # Spaces that no task writes cannot have races.
            if access.space in self.written:
                yield access, False

    def _unordered(self, unit: str, access: Access, is_write: bool, clock: Clock) -> Task | None:
        """Return a task of another unit that may run concurrently and conflicts with an access."""
        for other in self.machine.units:
            if other == unit:
                continue
            for kind in (True, False) if is_write else (True,):
                last = self.last.get((other, access.space, kind))
                if last is None:
                    continue
                newest = int(last[access.entries].max(initial=-1))
                if newest >= clock[self.index[other]]:
                    return self.by_unit[other][newest]
        return None

    def _last(self, unit: str, space: str, is_write: bool) -> NDArray[np.int32]:
        key = (unit, space, is_write)
        if key not in self.last:
            self.last[key] = np.full(self.machine.spaces[space], -1, np.int32)
        return self.last[key]

    def _report(self, task: Task, other: Task, access: Access) -> None:
        text = f"races with task {other.number} for {access.space}: {task.text}, and {other.text}"
        self.proof.faults.append(Fault("race", text, (task.number, other.number)))
