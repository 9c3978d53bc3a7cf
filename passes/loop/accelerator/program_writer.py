"""Assembly of a VDLA program, with management of its micro-op memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from tcopt.dialects.accelerator import StepOp
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import KernelOp, LoadUopsOp
from tcopt.passes.loop.accelerator.micro_ops import MicroKernel


@dataclass
class MicroOpMemory:
    """Addresses of kernels in the micro-op memory; when it is full, the oldest are evicted."""

    entries: int
    end: int = 0
    there: dict[MicroKernel, int] = field(default_factory=dict[MicroKernel, int])

    def place(self, kernel: MicroKernel) -> int:
        """Assign an address to a new kernel."""
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
    """Collects the kernels and instructions of a program.

    Equal kernels are shared. If the micro-ops of all kernels fit the memory, they are loaded once,
    before the first instruction that executes any. Otherwise each kernel is loaded before an
    instruction that executes it, unless it is still in the memory.
    """

    def __init__(self, target: VdlaTargetAttr):
        self.instructions: list[StepOp] = []
        self._memory = MicroOpMemory(target.entries["uop"])
        self._ops: dict[tuple[MicroKernel, int], KernelOp] = {}

    @property
    def kernels(self) -> list[KernelOp]:
        """The kernels in the order of first use."""
        return list(self._ops.values())

    def add(self, op: StepOp, location: LocationAttr) -> None:
        """Append an instruction."""
        op.location = location
        self.instructions.append(op)

    def kernel(self, kernel: MicroKernel, name: str, location: LocationAttr) -> SSAValue:
        """Return the kernel as a value, with its micro-ops loaded; `name` is its printed name."""
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
        """Return all ops of the program."""
        loads = [op for op in self.instructions if isinstance(op, LoadUopsOp)]
        if loads and sum(kernel.size for kernel in self.kernels) <= self._memory.entries:
            # Each kernel has a separate address, in order.
            first, *others = loads
            whole = LoadUopsOp([kernel.result for kernel in self.kernels])
            whole.location = first.location
            self.instructions[self.instructions.index(first)] = whole
            self.instructions = [op for op in self.instructions if op not in others]
        return [*self.kernels, *self.instructions]
