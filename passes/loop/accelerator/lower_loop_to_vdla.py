"""Lowering of loop functions to VDLA programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects import loop
from tcopt.dialects.accelerator import FinishOp, ProgramOp
from tcopt.dialects.intrinsics import Intrinsic
from tcopt.dialects.intrinsics.vdla import Instruction, parts_of
from tcopt.dialects.target import VdlaTargetAttr, vdla_target_of
from tcopt.dialects.vdla import (
    AluCode,
    AluOp,
    GemmOp,
    KernelKind,
    LoadOp,
    Memory,
    StoreOp,
)
from tcopt.passes.loop.accelerator.instruction_nests import Nest, Work
from tcopt.passes.loop.accelerator.micro_ops import kernels_of
from tcopt.passes.loop.accelerator.program_writer import ProgramWriter
from tcopt.passes.loop.accelerator.transfers import outside_of, tiles_of
from tcopt.passes.loop.accelerator.writing_out import WritingOut, is_for_accelerator
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.locations import nearest_location


@dataclass
class LowerFunction(RewritePattern):
    """Convert a function whose buffers are all placed to a program.

    loop.func @f(%x: memref<4x16xi32>, %y: memref<4x16xi32>) {
      %a = loop.alloc acc_register {places = [0]} : memref<4x16xi32>
      loop.for %i = 0 to 4 { loop.intrin "vdla_load_acc_1x16" outs(%a[%i, 0] ..) ins(%x[%i, 0] ..) }
      ...
    ->
    accelerator.program @f(%x: memref<4x16xi32>, %y: memref<4x16xi32>) {
      vdla.load acc 0, %x[0] : 1x4
      ...
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.FuncOp, rewriter: PatternRewriter) -> None:
        target = vdla_target_of(op)
        if target is None or not is_for_accelerator(op):
            return
        program = _Lowering(op, target).program()
        rewriter.replace(op, program, [])


@dataclass(frozen=True)
class LowerLoopToVdlaPass(ModulePass):
    """Lower loop functions to VDLA programs without dependency tokens.

    A loop nest around a single intrinsic call becomes the loops of an instruction; all other loops
    are unrolled, as are loops marked `unrolled`. Calls that copy become transfers, each as large as
    the machine permits; calls that compute become kernels, whose two hardware loops are chosen to
    minimise the number of micro-ops. A buffer with several slots uses them in rotation, one each
    time its block is entered. Guards, and tiles that are partly outside of their buffers, become
    shorter loops and padding.

        loop.for %i = 0 to 2 {
          %a = loop.alloc acc_input {slots = 2 : i64, places = [0, 40]} : memref<4x10x16xi8>
          loop.for %y = 0 to 4 {
            loop.for %z = 0 to 10 {
              loop.intrin "vdla_load_inp_1x16" outs(%a[%y, %z, 0] by [0, 0, 1] : ..)
                ins(%x[%i * 3 + %y - 1, %z - 1, 0] by [0, 0, 1] : memref<8x8x16xi8>)
        ->
        vdla.load inp 0, %x[0] : 3x8 pad [1, 0, 1, 1]
        vdla.load inp 40, %x[16] : 4x8 pad [0, 0, 1, 1]

    Each function becomes a program with the same name and arguments, which are in host memory;
    functions without intrinsic calls are not changed. The pass runs after `lower-blocks` and
    `place-sram`; dependency tokens are inserted afterwards, from the memory accesses of
    instructions.

    The lowering interprets the function with an environment of loop variables and buffer addresses.
    """

    name = "lower-loop-to-vdla"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerFunction()], once=True)


class _Lowering(WritingOut):
    """Lowering of one function to a program."""

    def __init__(self, function: loop.FuncOp, target: VdlaTargetAttr):
        super().__init__(function, target)
        self.machine = target
        self.out = ProgramWriter(target)

    def program(self) -> ProgramOp:
        """Return the program."""
        block = self.run()
        self.out.add(FinishOp(), self.function.location)
        block.add_ops(self.out.ops())
        types = self.function.function_type.inputs.data
        program = ProgramOp(self.function.sym_name.data, types, Region(block))
        program.location = self.function.location
        program.attributes.update(self.function.attributes)
        return program

    def is_instruction(self, declared: Intrinsic) -> bool:
        return isinstance(declared.instruction, Instruction)

    def emit(self, work: Work, nest: Nest) -> None:
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
