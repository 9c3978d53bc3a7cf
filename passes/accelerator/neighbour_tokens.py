"""Dependency tokens by VTA's rule, for comparison: between consecutive statements of different
units, whatever they access.

VTA inserts tokens within each virtual thread before the threads are interleaved
(`CoProcInstDepDetector` in TVM's `coproc_sync.cc`). Instructions in a stream do not record their
thread, so threads are reconstructed as tasks that share entries of the accelerator's memories.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.accelerator.tasks import Machine, Task
from tcopt.passes.accelerator.token_plan import Staircase, Token, TokenPlan


def plan_neighbour_tokens(name: str, machine: Machine, tasks: Sequence[Task]) -> TokenPlan:
    """Return the tokens by VTA's rule.

    Within a thread, a task waits for the last task of a neighbouring unit if that is later than the
    last task of its own unit.
    """
    thread = _threads(machine, tasks)
    plan = TokenPlan(name)
    pairs = [(queue.producer, queue.consumer) for queue in machine.queues.values()]
    needs: dict[tuple[str, str], set[Token]] = {pair: set() for pair in pairs}
    last: dict[tuple[int, str], int] = {}
    for task in tasks:
        for producer, consumer in pairs:
            if consumer != task.unit:
                continue
            for group in set(thread) if task.is_end else {thread[task.number]}:
                before = last.get((group, producer), -1)
                if before > last.get((group, task.unit), -1):
                    needs[producer, consumer].add(Token(before, task.number))
        last[thread[task.number], task.unit] = task.number
    plan.tokens = {pair: Staircase(tokens).tokens for pair, tokens in needs.items()}
    return plan


def _threads(machine: Machine, tasks: Sequence[Task]) -> list[int]:
    """Return a thread number for each task, equal for tasks that share entries, even indirectly."""
    parent = list(range(len(tasks)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    owner: dict[str, NDArray[np.int32]] = {}
    for task in tasks:
        for access in (*task.reads, *task.writes):
            if access.space not in machine.local:
                continue
            entries = owner.setdefault(
                access.space, np.full(machine.spaces[access.space], -1, np.int32)
            )
            for other in np.unique(entries[access.entries]).tolist():
                if other >= 0:
                    parent[root(other)] = root(task.number)
            entries[access.entries] = task.number
    return [root(number) for number in range(len(tasks))]
