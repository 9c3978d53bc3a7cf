"""Loop functions as programs of an accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import FixedBitwidthType, LocationAttr, MemRefType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.intrinsics.vdla import Instruction
from tcopt.dialects.target import VdlaTargetAttr, vdla_target_of
from tcopt.dialects.vdla import (
    AluCode,
    AluOp,
    FinishOp,
    GemmOp,
    KernelKind,
    LoadOp,
    Memory,
    ProgramOp,
    StoreOp,
)
from tcopt.passes.loop.accelerator.forms import Form
from tcopt.passes.loop.accelerator.instruction_nests import Nest, Work, nest_at
from tcopt.passes.loop.accelerator.micro_ops import kernels_of
from tcopt.passes.loop.accelerator.program_writer import ProgramWriter
from tcopt.passes.loop.accelerator.transfers import tiles_of
from tcopt.support.errors import UnsupportedError
from tcopt.support.locations import nearest_location
from tcopt.support.quick_ir import keep_name
from tcopt.support.rewriting import rewrite


@dataclass
class LowerFunction(RewritePattern):
    """Make a program of a function all of whose buffers are placed.

    loop.func @f(%x: memref<4x16xi32>, %y: memref<4x16xi32>) {
      %a = loop.alloc acc_register {places = [0]} : memref<4x16xi32>
      loop.for %i = 0 to 4 { loop.intrin "vdla_load_acc_1x16" outs(%a[%i, 0] ..) ins(%x[%i, 0] ..) }
      ...
    ->
    vdla.program @f(%x: memref<4x16xi32>, %y: memref<4x16xi32>) {
      vdla.load acc 0, %x[0] : 1x4
      ...
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loop.FuncOp, rewriter: PatternRewriter) -> None:
        target = vdla_target_of(op)
        if target is None or not _is_for_accelerator(op):
            return
        program = _Lowering(op, target).program()
        rewriter.replace(op, program, [])


@dataclass(frozen=True)
class LowerLoopToVdlaPass(ModulePass):
    """Writes loop functions out as programs of the accelerator, without tokens.

    A loop around nothing but one call of an intrinsic is a loop of an instruction; all others
    are written out, as are loops marked `unrolled`. Calls that copy become transfers of as many
    entries as one may have; calls that compute become kernels, whose two hardware loops are those
    that leave the fewest micro-ops. A buffer in several slots lies in one after the other, each
    time that the block that holds it is entered. Guards, and tiles that lie outside of their
    buffers, become shorter loops and pads.

        loop.for %i = 0 to 2 {
          %a = loop.alloc acc_input {slots = 2 : i64, places = [0, 40]} : memref<4x10x16xi8>
          loop.for %y = 0 to 4 {
            loop.for %z = 0 to 10 {
              loop.intrin "vdla_load_inp_1x16" outs(%a[%y, %z, 0] by [0, 0, 1] : ..)
                ins(%x[%i * 3 + %y - 1, %z - 1, 0] by [0, 0, 1] : memref<8x8x16xi8>)
        ->
        vdla.load inp 0, %x[0] : 3x8 pad [1, 0, 1, 1]
        vdla.load inp 40, %x[16] : 4x8 pad [0, 0, 1, 1]

    Each function becomes one program of its name and arguments, which are in memory; functions
    without calls of intrinsics stay. It comes after `lower-blocks` and `place-sram`; tokens are
    inserted afterwards, from what instructions touch.

    Writing out is a walk with an environment: what the loops around are, and where buffers lie.
    """

    name = "lower-loop-to-vdla"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerFunction()], once=True)


def _is_for_accelerator(function: loop.FuncOp) -> bool:
    return any(isinstance(op, loop.AllocOp) and op.scope.data.is_placed for op in function.walk())


@dataclass
class _Lowering:
    """The writing of one program."""

    function: loop.FuncOp
    target: VdlaTargetAttr
    values: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    places: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    _times: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    _nests: dict[Operation, Nest | None] = field(default_factory=dict[Operation, Nest | None])
    _conditions: dict[Operation, list[tuple[Form, int]]] = field(
        default_factory=dict[Operation, list[tuple[Form, int]]]
    )

    def program(self) -> ProgramOp:
        """The program."""
        self.out = ProgramWriter(self.target)
        types = self.function.function_type.inputs.data
        block = Block(arg_types=types)
        for old, new in zip(self.function.body.block.args, block.args, strict=True):
            self.buffers[old] = new
            keep_name(old, new)
        self._run(self.function.body.block)
        self.out.add(FinishOp(), self.function.location)
        block.add_ops(self.out.ops())
        program = ProgramOp(self.function.sym_name.data, types, Region(block))
        program.location = self.function.location
        program.attributes.update(self.function.attributes)
        return program

    def _run(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)

    def _op(self, op: Operation) -> None:
        if isinstance(op, loop.AllocOp):
            self._alloc(op)
            return
        if op not in self._nests:
            self._nests[op] = self._nest(op)
        nest = self._nests[op]
        work = None if nest is None else nest.work(self.values, self.places)
        if nest is not None and work is not None:
            for each in work:
                self._emit(each, nest)
            return
        match op:
            case loop.ForOp():
                for value in range(op.trip_count):
                    self.values[op.induction_variable] = value
                    self._run(op.body.block)
                self.values.pop(op.induction_variable, None)
            case loop.GuardOp():
                if self._holds(op):
                    self._run(op.body.block)
            case _:
                raise UnsupportedError(
                    f"the accelerator has no instruction for {op.name}",
                    op=op,
                    hint="sched.tensorize makes calls of its intrinsics",
                )

    def _alloc(self, op: loop.AllocOp) -> None:
        found = op.places
        if found is None:
            name = op.result.name_hint or "a buffer"
            hint = "place-sram comes before" if op.scope.data.is_placed else None
            reason = f"%{name} in {op.scope.data} has no place on the accelerator"
            raise UnsupportedError(reason, op=op, hint=hint)
        times = self._times.get(op.result, 0)
        self._times[op.result] = times + 1
        self.places[op.result] = found[times % len(found)]

    def _nest(self, op: Operation) -> Nest | None:
        """The nest that an op begins; UnsupportedError if it is one of another machine."""
        nest = nest_at(op)
        if nest is None:
            return None
        name = nest.call.intrin.data
        is_there = nest.declared.is_on(self.target.capabilities)
        if not is_there or not isinstance(nest.declared.instruction, Instruction):
            raise UnsupportedError(f"the accelerator has no '{name}'", op=nest.call)
        for tile in nest.tiles:
            alloc = tile.buffer.owner
            if isinstance(alloc, loop.AllocOp):
                memory = self.target.memories[alloc.scope.data.value]
                type_ = tile.buffer.type
                assert isa(type_, MemRefType)
                element = type_.get_element_type()
                assert isinstance(element, FixedBitwidthType)
                elements = 1
                for extent in tile.extents:
                    elements *= extent
                if elements * element.bitwidth // 8 != memory.entry_bytes:
                    raise UnsupportedError(
                        f"'{name}' works on entries of {elements * element.bitwidth // 8} bytes, "
                        f"those of {alloc.scope.data} have {memory.entry_bytes}",
                        op=nest.call,
                    )
        return nest

    def _holds(self, op: loop.GuardOp) -> bool:
        if op not in self._conditions:
            pairs = zip(op.map.data.results, op.condition_extents, strict=True)
            self._conditions[op] = [(Form.of(e, op.indices), extent) for e, extent in pairs]
        for form, extent in self._conditions[op]:
            found = form.at(self.values)
            assert found is not None and not found.steps, "all loops around are written out"
            if not 0 <= found.base < extent:
                return False
        return True

    def _emit(self, work: Work, nest: Nest) -> None:
        instruction = nest.declared.instruction
        assert isinstance(instruction, Instruction)
        location = nearest_location(nest.call)
        writers: dict[str, Callable[[Work, Instruction, LocationAttr], None]] = {
            "load": self._load,
            "store": self._store,
            "gemm": self._gemm,
            "reset": self._gemm,
            "alu": self._alu,
        }
        writers[instruction.kind](work, instruction, location)

    def _load(self, work: Work, what: Instruction, location: LocationAttr) -> None:
        memory, buffer = Memory(what.name), self.buffers[work.buffers[1]]
        for tile in tiles_of(work, 0, 1):
            shape = (tile.rows, tile.columns)
            op = LoadOp(memory, tile.sram, buffer, tile.dram, shape, tile.stride, tile.pad)
            self.out.add(op, location)

    def _store(self, work: Work, what: Instruction, location: LocationAttr) -> None:
        memory, buffer = Memory(what.name), self.buffers[work.buffers[0]]
        for tile in tiles_of(work, 1, 0):
            shape = (tile.rows, tile.columns)
            op = StoreOp(memory, tile.sram, buffer, tile.dram, shape, tile.stride)
            self.out.add(op, location)

    def _gemm(self, work: Work, what: Instruction, location: LocationAttr) -> None:
        for kernel in self._kernels(work, KernelKind.GEMM, what.kind, location):
            self.out.add(GemmOp(kernel, reset=what.kind == "reset"), location)

    def _alu(self, work: Work, what: Instruction, location: LocationAttr) -> None:
        for kernel in self._kernels(work, KernelKind.ALU, what.name, location):
            self.out.add(AluOp(AluCode(what.name), kernel, what.number), location)

    def _kernels(
        self, work: Work, kind: KernelKind, name: str, location: LocationAttr
    ) -> Iterator[SSAValue]:
        rewrite, most = self.target.rewrite.data, self.target.entries["uop"]
        for kernel in kernels_of(work, kind, rewrite=rewrite, most=most):
            yield self.out.kernel(kernel, name, location)
