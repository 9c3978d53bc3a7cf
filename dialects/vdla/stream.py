"""A program as plain Python values, for encoding, execution, timing and proofs."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import IntegerType, MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.vdla.attrs import AluCode, KernelKind, Memory, Unit
from tcopt.dialects.vdla.compute import AluOp, FinishOp, GemmOp
from tcopt.dialects.vdla.instruction import InstructionOp
from tcopt.dialects.vdla.kernel import KernelOp
from tcopt.dialects.vdla.program import ProgramOp
from tcopt.dialects.vdla.transfer import LoadUopsOp, TransferOp

Pair = tuple[int, int]
MicroOp = tuple[int, int, int]

MICRO_OPS = -1
"""Stands for the micro-op table in the field `buffer` of a transfer."""


@dataclass(frozen=True)
class Buffer:
    """A buffer in memory.

    Attributes:
        bits: width of an element, 8 or 32.
    """

    name: str
    shape: tuple[int, ...]
    bits: int

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.bits // 8


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """Base of all instructions.

    Attributes:
        pops: the units whose tokens it waits for. pushes: the units that it sends a token to.
        op: the op that it comes from, for messages.
        place: its source location, if there is no op.
    """

    unit: Unit
    pops: tuple[Unit, ...] = ()
    pushes: tuple[Unit, ...] = ()
    op: Operation | None = field(default=None, compare=False, repr=False)
    place: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Transfer(Instruction):
    """A load or store of a tile; addresses and the stride are in entries of its memory.

    Attributes:
        buffer: the position of the buffer, or `MICRO_OPS` for the program's table of micro-ops.
        pads: rows of zeros above and below, columns of zeros left and right.
    """

    is_store: bool
    memory: Memory
    sram: int
    buffer: int
    offset: int
    rows: int
    columns: int
    stride: int
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def sram_rows(self) -> int:
        """Rows on the accelerator, including padding."""
        return self.rows + self.pads[0] + self.pads[1]

    @property
    def sram_columns(self) -> int:
        """Columns on the accelerator, including padding."""
        return self.columns + self.pads[2] + self.pads[3]

    @property
    def sram_count(self) -> int:
        """Entries on the accelerator, including padding."""
        return self.sram_rows * self.sram_columns


@dataclass(frozen=True, kw_only=True)
class Compute(Instruction):
    """Micro-ops `uop_begin` to `uop_end` in two loops, in which `dst` and `src` are steps."""

    uop_begin: int
    uop_end: int
    loops: Pair
    dst: Pair
    src: Pair

    @property
    def count(self) -> int:
        """The number of micro-op executions."""
        return self.loops[0] * self.loops[1] * (self.uop_end - self.uop_begin)


@dataclass(frozen=True, kw_only=True)
class Gemm(Compute):
    """`acc[dst] += inp[src] . wgt[wgt]^T`, or `acc[dst] = 0`."""

    wgt: Pair
    reset: bool


@dataclass(frozen=True, kw_only=True)
class Alu(Compute):
    """`acc[dst] = acc[dst] op number`, or `acc[dst] op acc[src]` if `number` is None."""

    code: AluCode
    number: int | None


@dataclass(frozen=True, kw_only=True)
class Finish(Instruction):
    """The end of the program."""


@dataclass(frozen=True)
class Stream:
    """A program.

    Attributes:
        buffers: its arguments.
        micro_ops: the table that loads of micro-ops read; alu micro-ops have 0 as the weight.
        instructions: in the order of fetching.
    """

    name: str
    buffers: tuple[Buffer, ...]
    micro_ops: tuple[MicroOp, ...]
    instructions: tuple[Instruction, ...]


def stream_of(program: ProgramOp) -> Stream:
    """Convert a valid program to plain values."""
    return _Reader(program).read()


class _Reader:
    """Converter of a program; kernels that are loaded together are adjacent in the table."""

    def __init__(self, program: ProgramOp):
        self.program = program
        self.numbers: dict[SSAValue, int] = {
            value: number for number, value in enumerate(program.body.block.args)
        }
        self.table: list[MicroOp] = []
        self.places: dict[tuple[KernelOp, ...], int] = {}

    def read(self) -> Stream:
        body = self.program.body.block
        buffers = tuple(
            _buffer(value, value.name_hint or f"arg{number}")
            for number, value in enumerate(body.args)
        )
        instructions = tuple(self.instruction(op) for op in self.program.instructions)
        return Stream(self.program.sym_name.data, buffers, tuple(self.table), instructions)

    def instruction(self, op: InstructionOp) -> Instruction:
        if isinstance(op, TransferOp):
            return self.transfer(op)
        if isinstance(op, LoadUopsOp):
            return self.load_uops(op)
        if isinstance(op, GemmOp):
            dst, src, wgt = _pairs(op.body)
            return Gemm(
                unit=op.unit, pops=op.pops, pushes=op.pushes, op=op,
                uop_begin=op.body.place, uop_end=op.body.place + op.body.size,
                loops=_pair(op.body.extents, 1), dst=dst, src=src, wgt=wgt, reset=op.is_reset,
            )  # fmt: skip
        if isinstance(op, AluOp):
            dst, src = _pairs(op.body)
            return Alu(
                unit=op.unit, pops=op.pops, pushes=op.pushes, op=op,
                uop_begin=op.body.place, uop_end=op.body.place + op.body.size,
                loops=_pair(op.body.extents, 1), dst=dst, src=src, code=op.code.data,
                number=op.number,
            )  # fmt: skip
        assert isinstance(op, FinishOp)
        return Finish(unit=op.unit, pops=op.pops, pushes=op.pushes, op=op)

    def transfer(self, op: TransferOp) -> Transfer:
        top, bottom, left, right = op.pads
        return Transfer(
            unit=op.unit,
            pops=op.pops,
            pushes=op.pushes,
            op=op,
            is_store=op.unit is Unit.STORE,
            memory=op.memory_kind,
            sram=op.first,
            buffer=self.numbers[op.buffer],
            offset=op.start,
            rows=op.rows,
            columns=op.columns,
            stride=op.row_stride,
            pads=(top, bottom, left, right),
        )

    def load_uops(self, op: LoadUopsOp) -> Transfer:
        kernels = tuple(op.loaded)
        if kernels not in self.places:
            self.places[kernels] = len(self.table)
            self.table += (row for kernel in kernels for row in micro_ops_of(kernel))
        return Transfer(
            unit=op.unit,
            pops=op.pops,
            pushes=op.pushes,
            op=op,
            is_store=False,
            memory=Memory.UOP,
            sram=op.first,
            buffer=MICRO_OPS,
            offset=self.places[kernels],
            rows=1,
            columns=op.count,
            stride=op.count,
        )


def micro_ops_of(kernel: KernelOp) -> list[MicroOp]:
    """Return the micro-ops of a kernel, with all three fields."""
    if kernel.kind.data is KernelKind.ALU:
        return [(dst, src, 0) for dst, src in kernel.rows]
    return [(dst, src, wgt) for dst, src, wgt in kernel.rows]


def _pairs(kernel: KernelOp) -> list[Pair]:
    return [_pair(steps, 0) for steps in kernel.steps]


def _pair(numbers: tuple[int, ...], default: int) -> Pair:
    """Pad the numbers of at most two loops to two, with `default` for missing outer loops."""
    outer, inner = (default, default, *numbers)[-2:]
    return outer, inner


def _buffer(value: SSAValue, name: str) -> Buffer:
    assert isa(value.type, MemRefType)
    is_wide = value.type.element_type == IntegerType(32)
    return Buffer(name, tuple(value.type.get_shape()), 32 if is_wide else 8)
