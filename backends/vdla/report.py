"""Where the cycles of a program go: what each unit does and waits for, and for which node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from xdsl.ir import Operation

from tcopt.backends.accelerator.simulator.timing import WORK, Timeline, simulate
from tcopt.dialects.accelerator.tasks import Machine, Task
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import Unit
from tcopt.dialects.vdla.stream import Gemm, Stream
from tcopt.dialects.vdla.tasks.reading import machine_of, tasks_of
from tcopt.support.locations import describe_location, nearest_location

_BOUND = 0.9
"""A program is bound by what is busy for such a share of its cycles."""

Stalls = Mapping[str, Mapping[str, int]]
"""Cycles by cause, by node."""


@dataclass(frozen=True)
class ProgramReport:
    """What a program takes, and why.

    Attributes:
        cycles: from the call to the end.
        products: cycles for which the matrix unit multiplies at least.
        port: cycles for which the port moves data; `bytes`: how many of them.
        busy: cycles of work by unit.
        stalls: cycles that units wait, by unit, cause and node.
        tasks, machine, timeline: what they were found in.
    """

    name: str
    cycles: int
    products: int
    port: int
    bytes: int
    busy: Mapping[str, int]
    stalls: Mapping[str, Stalls]
    tasks: list[Task]
    machine: Machine
    timeline: Timeline

    @property
    def utilisation(self) -> float:
        """The share of cycles in which the matrix unit multiplies."""
        return self.products / max(self.cycles, 1)

    @property
    def bound_by(self) -> str:
        """What keeps the program from being quicker: a unit, the port, or what compute awaits."""
        shares = {"the port": self.port, **{f"the {u} unit": n for u, n in self.busy.items()}}
        name, most = max(shares.items(), key=lambda item: item[1])
        if most >= _BOUND * self.cycles:
            return name
        causes: dict[str, int] = defaultdict(int)
        for stalls in self.stalls.get(Unit.COMPUTE, {}).values():
            for cause, cycles in stalls.items():
                causes[cause] += cycles
        if not causes:
            return name
        cause = max(causes, key=lambda each: causes[each])
        return f"waits of the compute unit for {cause}"

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


def report_of(stream: Stream, target: VdlaTargetAttr) -> ProgramReport:
    """Simulate a stream and say where its cycles go.

    Raises:
        VerificationError: units wait for each other forever, or micro-ops are not there.
    """
    tasks, faults = tasks_of(stream, target)
    if faults:
        raise faults[0]
    machine = machine_of(target, stream)
    timeline = simulate(machine, tasks)
    gemms = [each for each in stream.instructions if isinstance(each, Gemm) and not each.reset]
    units = list(machine.units)
    return ProgramReport(
        stream.name,
        timeline.cycles,
        sum(each.count for each in gemms) * target.gemm_cycles.data,
        max(timeline.busy[channel] for channel in machine.port.channels),
        sum(task.bytes for task in tasks),
        {unit: timeline.busy[unit] for unit in units},
        {unit: _stalls(unit, tasks, timeline) for unit in units},
        tasks,
        machine,
        timeline,
    )


def _stalls(unit: str, tasks: list[Task], timeline: Timeline) -> Stalls:
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for each in timeline.slices:
        if each.track == unit and each.cause != WORK:
            node = node_of(tasks[each.task]) if each.task >= 0 else ""
            found[node][each.cause] += each.end - each.start
    return {node: dict(causes) for node, causes in found.items()}


def node_of(task: Task) -> str:
    """Where an instruction comes from, a node or a place in a text; empty if that is not known."""
    op = getattr(task.source, "op", None)
    return (describe_location(nearest_location(op)) or "") if isinstance(op, Operation) else ""


def attainable_cycles(products: int, moved: int, target: VdlaTargetAttr) -> int:
    """Cycles that products and the bytes moved take at least, whichever takes longer."""
    port = ceil(moved * target.port_cycles.data / target.port_bytes.data)
    return max(products * target.gemm_cycles.data, port)
