"""Reference implementation of token insertion: from accessed entries, by pairs of units."""

from __future__ import annotations

import numpy as np

from tcopt.dialects.accelerator import ProgramOp, StepOp
from tcopt.dialects.accelerator.reading import read_program
from tcopt.dialects.accelerator.tasks import Access, Entries, Task
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import Unit


def insert_tokens(program: ProgramOp, target: VdlaTargetAttr) -> int:
    """Insert the required tokens into a program; return their number.

    For each pair of adjacent units, a consumer depends on the last conflicting producer; a token is
    sent only if that producer is later than all that were waited for. Conflicts of load and store
    in memory are ordered through a compute instruction between them, and the end waits for the last
    instructions of both.
    """
    tasks = read_program(program, target).tasks
    ops = program.steps
    needs: set[tuple[int, int]] = set()
    for later, task in enumerate(tasks):
        for earlier in range(later):
            other = tasks[earlier]
            if other.unit == task.unit or not conflict(other, task):
                continue
            if Unit.COMPUTE in (other.unit, task.unit):
                needs.add((earlier, later))
                continue
            between = [n for n in range(earlier + 1, later) if tasks[n].unit == Unit.COMPUTE]
            assert between, "nothing of the compute unit lies between a load and a store"
            needs |= {(earlier, between[-1]), (between[-1], later)}
    end = len(tasks) - 1
    for unit in (Unit.LOAD, Unit.STORE):
        mine = [n for n, task in enumerate(tasks) if task.unit == unit]
        if mine:
            needs.add((mine[-1], end))
    return _emit(ops, [Unit(task.unit) for task in tasks], needs)


def _emit(ops: list[StepOp], units: list[Unit], needs: set[tuple[int, int]]) -> int:
    pops: dict[int, set[Unit]] = {n: set() for n in range(len(ops))}
    pushes: dict[int, set[Unit]] = {n: set() for n in range(len(ops))}
    latest: dict[tuple[Unit, Unit], int] = {}
    count = 0
    by_consumer = sorted(needs, key=lambda need: (need[1], -need[0]))
    for earlier, later in by_consumer:
        pair = (units[earlier], units[later])
        if latest.get(pair, -1) >= earlier:
            continue
        latest[pair] = earlier
        pushes[earlier].add(pair[1])
        pops[later].add(pair[0])
        count += 1
    for n, op in enumerate(ops):
        op.set_tokens(_sorted(pops[n]), _sorted(pushes[n]))
    return count


def _sorted(units: set[Unit]) -> tuple[Unit, ...]:
    return tuple(unit for unit in Unit if unit in units)


def conflict(first: Task, second: Task) -> bool:
    """Whether two tasks access the same entry and at least one writes it."""
    pairs = (
        (first.writes, second.writes),
        (first.writes, second.reads),
        (first.reads, second.writes),
    )
    return any(_meet(a, b) for left, right in pairs for a in left for b in right)


def _meet(left: Access, right: Access) -> bool:
    if left.space != right.space:
        return False
    return len(np.intersect1d(_numbers(left.entries), _numbers(right.entries))) > 0


def _numbers(entries: Entries) -> np.ndarray:
    return np.arange(entries.start, entries.stop) if isinstance(entries, slice) else entries
