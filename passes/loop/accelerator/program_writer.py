"""The instructions of a program as they are written, and the memory of its micro-ops."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import InstructionOp, KernelOp, LoadUopsOp
from tcopt.passes.loop.accelerator.micro_ops import Kernel


@dataclass
class MicroOpMemory:
    """Which kernels lie where; the oldest make room where it is full."""

    entries: int
    end: int = 0
    there: dict[Kernel, int] = field(default_factory=dict[Kernel, int])

    def place(self, kernel: Kernel) -> int:
        """A place for a kernel that is not there, and from now on is."""
        size = len(kernel.rows)
        if self.end + size > self.entries:
            self.end = 0
        first, self.end = self.end, self.end + size
        self.there = {
            other: at
            for other, at in self.there.items()
            if at >= self.end or at + len(other.rows) <= first
        }
        self.there[kernel] = first
        return first


class ProgramWriter:
    """Gathers kernels and instructions.

    Kernels that are equal are one. If there is room for the micro-ops of all, they are loaded at
    once, in front of the first instruction that executes any; else each kernel's in front of the
    instructions that execute it, as often as others took its place.
    """

    def __init__(self, target: VdlaTargetAttr):
        self.instructions: list[InstructionOp] = []
        self._memory = MicroOpMemory(target.entries["uop"])
        self._ops: dict[tuple[Kernel, int], KernelOp] = {}

    @property
    def kernels(self) -> list[KernelOp]:
        """The kernels, as they were first used."""
        return list(self._ops.values())

    def add(self, op: InstructionOp, location: LocationAttr) -> None:
        """Append an instruction."""
        op.location = location
        self.instructions.append(op)

    def kernel(self, kernel: Kernel, name: str, location: LocationAttr) -> SSAValue:
        """The kernel as a value, its micro-ops loaded; `name` is for text."""
        place = self._memory.there.get(kernel)
        is_new = place is None
        if place is None:
            place = self._memory.place(kernel)
        op = self._ops.get((kernel, place))
        if op is None:
            op = KernelOp(kernel.kind, place, kernel.loops, kernel.factors, kernel.rows)
            op.result.name_hint, op.location = name, location
            self._ops[kernel, place] = op
        if is_new:
            self.add(LoadUopsOp([op.result]), location)
        return op.result

    def ops(self) -> list[Operation]:
        """All ops of the program."""
        loads = [op for op in self.instructions if isinstance(op, LoadUopsOp)]
        if loads and sum(kernel.size for kernel in self.kernels) <= self._memory.entries:
            # Each has a place of its own, one after the other.
            first, *others = loads
            whole = LoadUopsOp([kernel.result for kernel in self.kernels])
            whole.location = first.location
            self.instructions[self.instructions.index(first)] = whole
            self.instructions = [op for op in self.instructions if op not in others]
        return [*self.kernels, *self.instructions]
