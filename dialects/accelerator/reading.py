"""Translation of a program to tasks of the accelerator's units, with accesses and durations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.accelerator.dependences import dependences_of
from tcopt.dialects.accelerator.machine import machine_for, queue_name
from tcopt.dialects.accelerator.program import ProgramOp
from tcopt.dialects.accelerator.steps import BarrierOp, FinishOp, StepOp
from tcopt.dialects.accelerator.tasks import Machine, Task
from tcopt.dialects.target import AcceleratorFacts
from tcopt.dialects.target.accelerator import Barriers, Interlocks
from tcopt.support.errors import VerificationError
from tcopt.support.locations import describe_location, nearest_location

BARRIER = "barrier"
"""Pseudo-unit that executes barriers."""


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
    Raises:
        VerificationError: the accelerator lacks what a step needs, or the contents of memories
            that are known before the program runs are not those that a step requires.
    """
    return Reading(program.sym_name.data, *_Reader(program, facts).read(places))


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


class _Reader:
    def __init__(self, program: ProgramOp, facts: AcceleratorFacts):
        self.program, self.facts = program, facts
        arguments = program.body.block.args
        self.spaces: dict[SSAValue, str] = {
            value: f"buffer {n} ({value.name_hint or f'arg{n}'})"
            for n, value in enumerate(arguments)
        }
        self.contents: dict[str, dict[int, Any]] = {}
        self.newest: dict[str, int] = {}
        self.barrier = -1
        self.released: set[str] = set()

    def read(self, places: Sequence[str]) -> tuple[Machine, list[Task]]:
        machine, steps = self.machine(), self.program.steps
        tasks = [self.task(number, step, places) for number, step in enumerate(steps)]
        if isinstance(self.facts.order, Interlocks):
            tasks = interlocked(machine, tasks)
        return machine, tasks

    def machine(self) -> Machine:
        """Return the model of the machine, including the program's buffers."""
        facts = self.facts
        sizes = dict(facts.spaces)
        local = frozenset(sizes)
        for value, space in self.spaces.items():
            sizes[space] = _size(value, facts.granule)
        machine = machine_for(facts, sizes, local)
        if isinstance(facts.order, Barriers):
            machine = replace(machine, units=[*machine.units, BARRIER])
        return machine

    def task(self, number: int, step: StepOp, places: Sequence[str]) -> Task:
        self.check(number, step)
        place = places[number] if places else describe_location(nearest_location(step)) or ""
        if isinstance(step, BarrierOp):
            return self.wait_for_all(number, step, place)
        facts, unit = self.facts, step.unit_on(self.facts)
        effects = step.effects(facts, self.spaces)
        after: tuple[int, ...] = ()
        if self.barrier >= 0 and unit not in self.released:
            self.released.add(unit)
            after = (self.barrier,)
        self.newest[unit] = number
        return Task(
            number,
            unit,
            tuple(queue_name(other, unit) for other in step.waits_for),
            tuple(queue_name(unit, other) for other in step.sends_to),
            effects.reads,
            effects.writes,
            effects.cycles,
            facts.transfer_cycles(effects.rows, effects.row_bytes) if effects.rows else 0,
            facts.memory_port.channels[-1 if effects.stores else 0],
            effects.bytes,
            after,
            (BARRIER,) if after else (),
            is_end=isinstance(step, FinishOp),
            source=step,
            place=place,
        )

    def wait_for_all(self, number: int, step: BarrierOp, place: str) -> Task:
        """Return the task of a barrier."""
        assert isinstance(self.facts.order, Barriers)
        units = sorted(self.newest, key=lambda unit: self.newest[unit])
        self.barrier, self.released = number, set()
        return Task(
            number,
            BARRIER,
            cycles=self.facts.order.cycles,
            after=tuple(self.newest[unit] for unit in units),
            causes=tuple(f"the {unit} unit" for unit in units),
            source=step,
            place=place,
        )

    def check(self, number: int, step: StepOp) -> None:
        try:
            step.verify_for(self.facts)
            step.follow(self.contents)
        except VerifyException as error:
            raise VerificationError(str(error), op=step, where=where_of(step, number)) from None


def where_of(step: StepOp, number: int) -> str:
    """Describe a step in a message by its number and source location."""
    place = describe_location(nearest_location(step))
    return f"step {number}{f', {place}' if place else ''}"


def _size(value: SSAValue, granule: int) -> int:
    """Return the size of a buffer in its elements, or in pieces of `granule` bytes."""
    assert isa(value.type, MemRefType)
    count, element = value.type.element_count(), value.type.element_type
    if not granule:
        return count
    assert isinstance(element, FixedBitwidthType)
    return -(-count * element.bitwidth // (8 * granule))
