"""Orders in which the units of an accelerator may execute their tasks."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from tcopt.dialects.accelerator.tasks import Machine, Task
from tcopt.support.errors import VerificationError

_PATIENCE = 12
"""Maximum number of tasks before the priorities of units change."""


def adversarial_order(machine: Machine, tasks: Sequence[Task], seed: int) -> Iterator[int]:
    """Yield the tasks in an order that tokens and `Task.after` allow, in which each unit runs as
    early or as late as possible for a while.

    Nothing else constrains a unit: queues are unbounded.

    Raises:
        VerificationError: units wait forever.
    """
    numbers = random.Random(seed)
    waiting = {unit: deque(t.number for t in tasks if t.unit == unit) for unit in machine.units}
    tokens: Counter[str] = Counter()
    done: set[int] = set()
    order, patience = list(machine.units), 0
    while any(waiting.values()):
        if patience == 0:
            numbers.shuffle(order)
            patience = numbers.randint(1, _PATIENCE)
        patience -= 1
        ready = (
            waiting[unit][0]
            for unit in order
            if waiting[unit] and _is_ready(tasks[waiting[unit][0]], tokens, done)
        )
        number = next(ready, None)
        if number is None:
            stuck = tasks[min(queue[0] for queue in waiting.values() if queue)]
            raise VerificationError(
                f"the {stuck.unit} unit waits forever: {stuck.text}",
                where=f"task {stuck.number}",
            )
        task = tasks[number]
        waiting[task.unit].popleft()
        tokens.subtract(task.pops)
        tokens.update(task.pushes)
        done.add(number)
        yield number


def _is_ready(task: Task, tokens: Counter[str], done: set[int]) -> bool:
    return all(tokens[name] > 0 for name in task.pops) and done.issuperset(task.after)
