"""The tokens of a program, and tasks with one token removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tcopt.backends.accelerator.simulator.proof import Proof, prove
from tcopt.dialects.accelerator.reading import Reading
from tcopt.dialects.accelerator.tasks import Task


def token_pairs(tasks: Sequence[Task]) -> list[tuple[int, int]]:
    """Return sender and receiver of each token: the n-th send of a queue is matched by the n-th
    wait."""
    sent: dict[str, list[int]] = defaultdict(list)
    taken: dict[str, list[int]] = defaultdict(list)
    for task in tasks:
        for queue in task.pushes:
            sent[queue].append(task.number)
        for queue in task.pops:
            taken[queue].append(task.number)
    return [pair for queue in sent for pair in zip(sent[queue], taken[queue], strict=True)]


def without_token(read: Reading, sender: int, taker: int) -> Reading:
    tasks = list(read.tasks)
    queue = f"{tasks[sender].unit}->{tasks[taker].unit}"
    pushes, pops = tasks[sender].pushes, tasks[taker].pops
    tasks[sender] = replace(tasks[sender], pushes=tuple(each for each in pushes if each != queue))
    tasks[taker] = replace(tasks[taker], pops=tuple(each for each in pops if each != queue))
    return replace(read, tasks=tasks)


def proof_of(read: Reading, limit: int = 10) -> Proof:
    return prove(read.machine, read.tasks, limit=limit)
