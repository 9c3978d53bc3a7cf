"""Tokens by VTA's rule, to compare with: between statements of different units that follow each
other, whatever they touch.

VTA decides before virtual threads are interleaved, within each of them (`CoProcInstDepDetector`
in TVM's `coproc_sync.cc`). A stream no longer says which thread an instruction is of; threads are
found again as what has entries of the accelerator's memories in common.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.accelerator.tasks import Machine, Task
from tcopt.passes.accelerator.token_plan import Staircase, Token, TokenPlan


def plan_neighbour_tokens(name: str, machine: Machine, tasks: Sequence[Task]) -> TokenPlan:
    """The tokens of VTA's rule.

    Within a thread, a task waits for the last task of a neighbouring unit, if that came after the
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
    """For each task the number of one that it shares entries with, directly or through others."""
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
