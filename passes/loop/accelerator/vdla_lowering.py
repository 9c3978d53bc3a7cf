"""Lowering of loops around intrinsics of VDLA to its instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from tcopt.dialects import loop
from tcopt.dialects.intrinsics import Intrinsic
from tcopt.dialects.intrinsics.vdla import Instruction, parts_of
from tcopt.dialects.target import AcceleratorFacts, VdlaTargetAttr
from tcopt.dialects.vdla import AluCode, AluOp, GemmOp, KernelKind, LoadOp, Memory, StoreOp
from tcopt.passes.loop.accelerator.instruction_nests import InstructionNest, Work
from tcopt.passes.loop.accelerator.micro_ops import kernels_of
from tcopt.passes.loop.accelerator.program_writer import ProgramWriter
from tcopt.passes.loop.accelerator.transfers import outside_of, tiles_of
from tcopt.passes.loop.accelerator.writing_out import WritingOut
from tcopt.support.locations import nearest_location


class VdlaLowering(WritingOut):
    """Lowering to instructions of VDLA.

    Calls that copy become transfers, each as large as the machine permits; calls that compute
    become kernels, whose two hardware loops are chosen to minimise the number of micro-ops.

        loop.for %i = 0 to 2 {
          %a = loop.alloc acc_input {slots = 2 : i64, places = [0, 40]} : memref<4x10x16xi8>
          loop.for %y = 0 to 4 {
            loop.for %z = 0 to 10 {
              loop.intrin "vdla_load_inp_1x16" outs(%a[%y, %z, 0] by [0, 0, 1] : ..)
                ins(%x[%i * 3 + %y - 1, %z - 1, 0] by [0, 0, 1] : memref<8x8x16xi8>)
        ->
        vdla.load inp 0, %x[0] : 3x8 pad [1, 0, 1, 1]
        vdla.load inp 40, %x[16] : 4x8 pad [0, 0, 1, 1]
    """

    def __init__(self, function: loop.FuncOp, facts: AcceleratorFacts):
        super().__init__(function, facts)
        assert isinstance(facts, VdlaTargetAttr), "only a VDLA has its intrinsics"
        self.machine = facts
        self.out = ProgramWriter(facts)

    def steps(self) -> Sequence[Operation]:
        return self.out.ops()

    def is_instruction(self, declared: Intrinsic) -> bool:
        return isinstance(declared.instruction, Instruction)

    def emit(self, work: Work, nest: InstructionNest) -> None:
        instruction = nest.declared.instruction
        assert isinstance(instruction, Instruction)
        location = nearest_location(nest.call)
        writers: dict[str, Callable[[Work, Instruction, LocationAttr], None]] = {
            "load": self._load,
            "store": self._store,
            "gemm": self._gemm,
            "reset": self._gemm,
            "set": self._set,
            "alu": self._alu,
        }
        writers[instruction.kind](work, instruction, location)

    def _load(self, work: Work, what: Instruction, location: LocationAttr) -> None:
        memory, buffer = Memory(what.name), self.buffers[work.buffers[1]]
        for tile in tiles_of(work, 0, 1):
            shape = (tile.rows, tile.columns)
            op = LoadOp(memory, tile.sram, buffer, tile.dram, shape, tile.stride, tile.pad)
            self.out.add(op, location)
        if what.number:
            # Transfers pad with zeros.
            code = "min" if what.number < 0 else "max"
            for part in outside_of(work, 0):
                self._alu(part, Instruction("alu", code, what.number), location)

    def _store(self, work: Work, what: Instruction, location: LocationAttr) -> None:
        memory, buffer = Memory(what.name), self.buffers[work.buffers[0]]
        for tile in tiles_of(work, 1, 0):
            shape = (tile.rows, tile.columns)
            op = StoreOp(memory, tile.sram, buffer, tile.dram, shape, tile.stride)
            self.out.add(op, location)

    def _gemm(self, work: Work, what: Instruction, location: LocationAttr) -> None:
        for kernel in self._kernels(work, KernelKind.GEMM, what.kind, location):
            self.out.add(GemmOp(kernel, reset=what.kind == "reset"), location)

    def _set(self, work: Work, what: Instruction, location: LocationAttr) -> None:
        parts = parts_of(what.number or 0)
        assert parts is not None, "there is no intrinsic for other numbers"
        number, places = parts
        self._gemm(work, Instruction("reset"), location)
        for code, each in (("add", number), ("shr", -places)):
            if each:
                self._alu(work, Instruction("alu", code, each), location)

    def _alu(self, work: Work, what: Instruction, location: LocationAttr) -> None:
        for kernel in self._kernels(work, KernelKind.ALU, what.name, location):
            self.out.add(AluOp(AluCode(what.name), kernel, what.number), location)

    def _kernels(
        self, work: Work, kind: KernelKind, name: str, location: LocationAttr
    ) -> Iterator[SSAValue]:
        rewrite, most = self.machine.rewrite.data, self.machine.entries["uop"]
        for kernel in kernels_of(work, kind, rewrite=rewrite, most=most):
            yield self.out.kernel(kernel, name, location)
