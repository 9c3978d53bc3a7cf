"""Cycle report of a program: what each unit does and waits for, by node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcopt.backends.accelerator.code import FUNCTION, Settings, code_in
from tcopt.backends.accelerator.simulator.timing import WORK, Timeline, simulate
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.accelerator.reading import read_program
from tcopt.dialects.accelerator.tasks import Machine, Task
from tcopt.dialects.target import AcceleratorFacts
from tcopt.support.machines.instruction_places import places_in

_BOUND = 0.9
"""A unit that is busy for this fraction of a program's cycles is its bottleneck."""

Stalls = Mapping[str, Mapping[str, int]]
"""Cycles by cause, by node."""


@dataclass(frozen=True)
class ProgramReport:
    """Cycles of a program and their causes.

    Attributes:
        cycles: from the call to the end.
        unit: the unit that multiplies. products: minimum cycles that its products take.
        port: cycles for which the port transfers data; `bytes`: the number of bytes transferred.
        busy: busy cycles by unit.
        stalls: cycles for which units wait, by unit, cause and node.
        tasks, machine, timeline: the simulation that the report is based on.
    """

    name: str
    cycles: int
    unit: str
    products: int
    port: int
    bytes: int
    busy: Mapping[str, int]
    stalls: Mapping[str, Stalls]
    tasks: list[Task]
    machine: Machine
    timeline: Timeline

    @property
    def title(self) -> str:
        """The nodes that the program computes, or its name."""
        nodes = dict.fromkeys(task.place for task in self.tasks if task.place)
        return ", ".join(nodes) or self.name

    @property
    def utilisation(self) -> float:
        """The fraction of cycles in which the matrix unit multiplies."""
        return self.products / max(self.cycles, 1)

    @property
    def bound_by(self) -> str:
        """The bottleneck of the program: a unit, the port, or what its unit waits for."""
        shares = {"the port": self.port, **{f"the {u} unit": n for u, n in self.busy.items()}}
        name, most = max(shares.items(), key=lambda item: item[1])
        if most >= _BOUND * self.cycles:
            return name
        causes: dict[str, int] = defaultdict(int)
        for stalls in self.stalls.get(self.unit, {}).values():
            for cause, cycles in stalls.items():
                causes[cause] += cycles
        if not causes:
            return name
        cause = max(causes, key=lambda each: causes[each])
        return f"waits of the {self.unit} unit for {cause}"

    def __str__(self) -> str:
        share = 100 * self.utilisation
        lines = [
            f"@{self.name}: {self.cycles:,} cycles, {self.products:,} of products ({share:.1f}%), "
            f"{self.port:,} of the port for {self.bytes:,} bytes; bound by {self.bound_by}"
        ]
        for unit, nodes in self.stalls.items():
            lines.append(f"  {unit}: {self.busy.get(unit, 0):,} cycles of work")
            for node, causes in nodes.items():
                told = ", ".join(f"{cause} {cycles:,}" for cause, cycles in causes.items())
                lines.append(f"    waits at {node or 'no node'}: {told}")
        return "\n".join(lines)

    def summary(self) -> str:
        """Return a one-line summary; waits are listed per node if there are several."""
        nodes = {node for stalls in self.stalls.values() for node in stalls} - {""}
        told: list[str] = []
        for unit, stalls in self.stalls.items():
            waits: dict[str, int] = defaultdict(int)
            for node, causes in stalls.items():
                place = f" at {node}" if node and len(nodes) > 1 else ""
                for cause, cycles in causes.items():
                    waits[f"{cause}{place}"] += cycles
            if waits:
                listed = sorted(waits.items(), key=lambda item: -item[1])
                causes = ", ".join(f"{cause} {cycles:,}" for cause, cycles in listed)
                told.append(f"{unit} works {self.busy.get(unit, 0):,}, waits for {causes}")
        return (
            f"{self.cycles:,} cycles, {100 * self.utilisation:.0f}% of them products; bound by "
            f"{self.bound_by}; {'; '.join(told)}"
        )


def report_of(
    program: ProgramOp, facts: AcceleratorFacts, places: Sequence[str] = ()
) -> ProgramReport:
    """Simulate a program and report where its cycles are spent.

    Args:
        places: source location of each step; by default taken from its IR location.
    Raises:
        VerificationError: there is a deadlock, or the accelerator lacks what a step needs.
    """
    read = read_program(program, facts, places)
    machine, tasks = read.machine, read.tasks
    timeline = simulate(machine, tasks)
    counts = [(step.unit_on(facts), step.products(facts)) for step in program.steps]
    multiplying = [(unit, count) for unit, count in counts if count]
    matrix, units = facts.matrix_unit, list(machine.units)
    return ProgramReport(
        read.name,
        timeline.cycles,
        multiplying[0][0] if multiplying else facts.last_unit,
        0 if matrix is None else matrix.cycles * sum(count for _, count in multiplying),
        max(timeline.busy[channel] for channel in machine.port.channels),
        sum(task.bytes for task in tasks),
        {each: timeline.busy[each] for each in units},
        {each: _stalls(each, tasks, timeline) for each in units},
        tasks,
        machine,
        timeline,
    )


def report_of_call(
    function: str,
    settings: Settings,
    shapes: Sequence[tuple[int, ...]],
    bits: Sequence[int],
) -> ProgramReport | None:
    """Return the cycle report of a program; None if the call does not run one.

    Args:
        function: the host function that is called, with its settings.
        shapes, bits: shapes of the buffers, and bit widths of their elements.
    """
    if function != FUNCTION:
        return None
    code = code_in(settings, shapes, bits)
    return report_of(code.program, code.facts, places_in(settings))


def _stalls(unit: str, tasks: list[Task], timeline: Timeline) -> Stalls:
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for each in timeline.slices:
        if each.track == unit and each.cause != WORK:
            node = tasks[each.task].place if each.task >= 0 else ""
            found[node][each.cause] += each.end - each.start
    return {node: dict(causes) for node, causes in found.items()}
