"""Translation of loop functions to instructions, by interpretation with an environment of loop
variables and buffer addresses.

Subclasses define the instructions of their machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.dialects.accelerator import FinishOp, ProgramOp
from tcopt.dialects.intrinsics import Intrinsic
from tcopt.dialects.loop.intrin import OperandTile
from tcopt.dialects.target import AcceleratorFacts
from tcopt.passes.loop.accelerator.forms import AccessForm
from tcopt.passes.loop.accelerator.instruction_nests import InstructionNest, Work, nest_at
from tcopt.support.errors import UnsupportedError
from tcopt.support.ir.quick_ir import keep_name


def is_for_accelerator(function: loop.FuncOp) -> bool:
    """Whether a function has buffers in memories of an accelerator."""
    return any(isinstance(op, loop.AllocOp) and op.scope.data.is_placed for op in function.walk())


class WritingOut(ABC):
    """Translates one function whose buffers are all placed.

    Attributes:
        values: variables of unrolled loops, with their current values.
        places: address of each buffer in a memory of the accelerator.
        buffers: arguments of the program, by those of the function.
    """

    def __init__(self, function: loop.FuncOp, target: AcceleratorFacts):
        self.function, self.target = function, target
        self.values: dict[SSAValue, int] = {}
        self.places: dict[SSAValue, int] = {}
        self.buffers: dict[SSAValue, SSAValue] = {}
        self._times: dict[SSAValue, int] = {}
        self._nests: dict[Operation, InstructionNest | None] = {}
        self._conditions: dict[Operation, list[tuple[AccessForm, int]]] = {}

    @abstractmethod
    def emit(self, work: Work, nest: InstructionNest) -> None:
        """Emit the instructions that do some work."""

    @abstractmethod
    def steps(self) -> Sequence[Operation]:
        """Return the steps of the program without the end, and constants that they refer to."""

    @abstractmethod
    def is_instruction(self, declared: Intrinsic) -> bool:
        """Whether calls of an intrinsic become instructions of this kind of program."""

    def granule(self, tile: OperandTile) -> int | None:
        """Return the elements per entry of a tile's buffer; None for the size of the tile."""
        return None

    def check_entry(
        self, tile: OperandTile, nest: InstructionNest, bytes_: int, entry_bytes: int
    ) -> None:
        """Check that the size of a tile is that of an entry of its memory."""
        if bytes_ != entry_bytes:
            alloc = tile.buffer.owner
            assert isinstance(alloc, loop.AllocOp)
            raise UnsupportedError(
                f"'{nest.declared.name}' works on entries of {bytes_} bytes, those of "
                f"{alloc.scope.data} have {entry_bytes}",
                op=nest.call,
            )

    def program(self) -> ProgramOp:
        """Translate the function to a program with the same name, arguments and attributes."""
        function = self.function
        types = function.function_type.inputs.data
        block = Block(arg_types=types)
        for old, new in zip(function.body.block.args, block.args, strict=True):
            self.buffers[old] = new
            keep_name(old, new)
        self._run(function.body.block)
        finish = FinishOp()
        block.add_ops([*self.steps(), finish])
        program = ProgramOp(function.sym_name.data, types, Region(block))
        finish.location = program.location = function.location
        program.attributes.update(function.attributes)
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
                self.emit(each, nest)
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
            hint = "run place-sram first" if op.scope.data.is_placed else None
            reason = f"%{name} in {op.scope.data} has no address on the accelerator"
            raise UnsupportedError(reason, op=op, hint=hint)
        times = self._times.get(op.result, 0)
        self._times[op.result] = times + 1
        self.places[op.result] = found[times % len(found)]

    def _nest(self, op: Operation) -> InstructionNest | None:
        """Return the nest that an op starts, or None; UnsupportedError if it is for another
        machine.
        """
        nest = nest_at(op, self.granule)
        if nest is None:
            return None
        declared = nest.declared
        if not declared.is_on(self.target.capabilities) or not self.is_instruction(declared):
            raise UnsupportedError(f"the accelerator has no '{declared.name}'", op=nest.call)
        for tile in nest.tiles:
            alloc = tile.buffer.owner
            if isinstance(alloc, loop.AllocOp):
                memory = self.target.memories.get(alloc.scope.data.value)
                if memory is None:
                    raise UnsupportedError(
                        f"the accelerator has no memory '{alloc.scope.data}'", op=alloc
                    )
                bytes_ = prod(tile.extents) * element_bits(tile) // 8
                self.check_entry(tile, nest, bytes_, memory.entry_bytes)
        return nest

    def _holds(self, op: loop.GuardOp) -> bool:
        if op not in self._conditions:
            pairs = zip(op.map.data.results, op.condition_extents, strict=True)
            self._conditions[op] = [(AccessForm.of(e, op.indices), extent) for e, extent in pairs]
        for form, extent in self._conditions[op]:
            found = form.at(self.values)
            assert found is not None and not found.steps, "all loops around are written out"
            if not 0 <= found.base < extent:
                return False
        return True


def element_bits(tile: OperandTile) -> int:
    """Return the bit width of a tile's elements."""
    type_ = tile.buffer.type
    assert isa(type_, MemRefType)
    element = type_.get_element_type()
    assert isinstance(element, FixedBitwidthType)
    return element.bitwidth
