"""Translation of a program to tasks of the accelerator's units, with accesses and durations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.accelerator.dependences import dependences_of
from tcopt.dialects.accelerator.instructions import BarrierOp, FinishOp, RunOp, StepOp
from tcopt.dialects.accelerator.machine import machine_for, queue_name
from tcopt.dialects.accelerator.operands import Place, tile_bytes
from tcopt.dialects.accelerator.program import ProgramOp
from tcopt.dialects.accelerator.tasks import Access, Entries, Machine, Task
from tcopt.dialects.intrinsics import Operand
from tcopt.dialects.target import AcceleratorFacts
from tcopt.dialects.target.accelerator import Barriers, Interlocks, Issue
from tcopt.support.locations import describe_location, nearest_location

BARRIER = "barrier"
"""Pseudo-unit that executes barriers."""

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Reading:
    """A program in the form that timing and proofs use.

    Attributes:
        tasks: one for each step, in order.
    """

    name: str
    machine: Machine
    tasks: list[Task]


def read_program(
    program: ProgramOp, facts: AcceleratorFacts, places: Sequence[str] = ()
) -> Reading:
    """Return the tasks of a program, including dependences that the hardware enforces.

    Args:
        places: source location of each step; by default taken from its IR location.
    """
    reader = _Reader(program, facts)
    machine = reader.machine()
    steps = program.steps
    places = places or [describe_location(nearest_location(step)) or "" for step in steps]
    tasks = [
        replace(reader.task(number, step), place=place)
        for number, (step, place) in enumerate(zip(steps, places, strict=True))
    ]
    if isinstance(facts.order, Interlocks):
        tasks = interlocked(machine, tasks)
    return Reading(program.sym_name.data, machine, tasks)


def interlocked(machine: Machine, tasks: Sequence[Task]) -> list[Task]:
    """Add the dependences on which a machine with hardware interlocks waits."""
    after: dict[int, list[tuple[int, str]]] = {}
    for each in dependences_of(machine, tasks):
        reason = " ".join(filter(None, (each.kind, each.space)))
        after.setdefault(each.second, []).append((each.first, reason))
    return [
        replace(
            task,
            after=tuple(number for number, _ in after.get(task.number, [])),
            causes=tuple(reason for _, reason in after.get(task.number, [])),
        )
        for task in tasks
    ]


def entries_of(place: Place, extents: Sequence[int], ranges: Sequence[tuple[int, int]]) -> Indices:
    """Return the first entry of the tile in each iteration, in order.

    Args:
        ranges: first and end of each loop's iterations; the whole extent unless some are skipped.
    """
    total = np.array([place.first], np.int64)
    for step, (low, high) in zip(place.steps, ranges, strict=True):
        total = (total[:, None] + np.arange(low, high, dtype=np.int64) * step).reshape(-1)
    return total


class _Reader:
    def __init__(self, program: ProgramOp, facts: AcceleratorFacts):
        self.program, self.facts = program, facts
        arguments = program.body.block.args
        self.spaces: dict[SSAValue, str] = {
            value: f"buffer {n} ({value.name_hint or f'arg{n}'})"
            for n, value in enumerate(arguments)
        }
        self.newest: dict[str, int] = {}
        self.barrier = -1
        self.released: set[str] = set()

    def machine(self) -> Machine:
        """Return the model of the machine, including the program's buffers, in elements."""
        facts = self.facts
        sizes = {scope: memory.entries for scope, memory in facts.memories.items()}
        for value, space in self.spaces.items():
            assert isa(value.type, MemRefType)
            sizes[space] = value.type.element_count()
        machine = machine_for(facts, sizes, frozenset(facts.memories))
        if isinstance(facts.order, Barriers):
            machine = replace(machine, units=[*machine.units, BARRIER])
        return machine

    def task(self, number: int, step: StepOp) -> Task:
        facts = self.facts
        if isinstance(step, BarrierOp):
            assert isinstance(facts.order, Barriers)
            units = sorted(self.newest, key=lambda unit: self.newest[unit])
            made = Task(
                number,
                BARRIER,
                cycles=facts.order.cycles,
                after=tuple(self.newest[unit] for unit in units),
                causes=tuple(f"the {unit} unit" for unit in units),
                text="barrier",
                source=step,
            )
            self.barrier, self.released = number, set()
            return made
        unit = step.unit
        assert unit is not None, "the program names its accelerator"
        made = Task(
            number,
            unit,
            tuple(queue_name(other, unit) for other in step.waits_for),
            tuple(queue_name(unit, other) for other in step.sends_to),
            is_end=isinstance(step, FinishOp),
            text=step.name.partition(".")[2],
            source=step,
        )
        if isinstance(step, RunOp):
            made = self.run(made, step)
        if self.barrier >= 0 and unit not in self.released:
            self.released.add(unit)
            made = replace(made, after=(self.barrier,), causes=(BARRIER,))
        self.newest[unit] = number
        return made

    def run(self, task: Task, step: RunOp) -> Task:
        declared, loops = step.declared, step.nest
        reads: list[Access] = []
        writes: list[Access] = []
        moved = np.empty(0, np.int64)
        operands = zip(declared.operands, step.places, strict=True)
        for number, (operand, place) in enumerate(operands):
            ranges = [(0, extent) for extent in loops.extents]
            if operand.is_padded:
                ranges = list(loops.inside)
            entries = self.touched(place, operand, loops.extents, ranges)
            if not len(entries):
                continue
            space = place.memory if place.buffer is None else self.spaces[place.buffer]
            access = Access(space, _compact(entries))
            if number == 0:
                writes.append(access)
            if number or declared.changes:
                reads.append(access)
            if place.buffer is not None:
                moved = np.append(moved, _runs(entries) * _element_bytes(operand))
        facts = self.facts
        row = -(-int(moved.sum()) // max(len(moved), 1))
        issue = Issue(declared.name, task.unit, loops.extents, len(moved), row)
        channels = facts.memory_port.channels
        stores = step.places[0].buffer is not None
        return replace(
            task,
            reads=tuple(reads),
            writes=tuple(writes),
            cycles=facts.issue_cycles(issue),
            port_cycles=facts.transfer_cycles(len(moved), row) if len(moved) else 0,
            channel=channels[-1 if stores else 0],
            bytes=int(moved.sum()),
            text=_told(step),
        )

    def touched(
        self,
        place: Place,
        operand: Operand,
        extents: Sequence[int],
        ranges: Sequence[tuple[int, int]],
    ) -> Indices:
        """Return all entries, or elements of a buffer, that an operand covers, each once."""
        size = prod(operand.shape)
        if place.buffer is None:
            size = tile_bytes(operand) // self.facts.memories[place.memory].entry_bytes
        first = entries_of(place, extents, ranges)
        return np.unique((first[:, None] + np.arange(size)).reshape(-1))


def _element_bytes(operand: Operand) -> int:
    return tile_bytes(operand) // prod(operand.shape)


def _runs(entries: Indices) -> Indices:
    """Return the lengths of contiguous runs."""
    ends = np.flatnonzero(np.diff(entries) != 1)
    return np.diff(np.concatenate(([-1], ends, [len(entries) - 1])))


def _compact(entries: Indices) -> Entries:
    """Return a slice if the entries are contiguous."""
    first, last = int(entries[0]), int(entries[-1])
    return slice(first, last + 1) if last - first + 1 == len(entries) else entries


def _told(step: RunOp) -> str:
    """Describe an instruction: the intrinsic, its loops, and its output."""
    place = step.places[0]
    where = place.memory
    if place.buffer is not None:
        where = f"%{place.buffer.name_hint or 'buffer'}"
    loops = " x ".join(map(str, step.nest.extents)) or "1"
    return f"{step.intrin.data}, {loops} times, to {where}[{place.first}]"
