"""A program as plain Python values: the fields of its instructions, for encoding and execution."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.dialects.builtin import IntegerType, MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects.accelerator import FinishOp, ProgramOp, RelayOp, StepOp
from tcopt.dialects.vdla import (
    AluCode,
    AluOp,
    GemmOp,
    KernelKind,
    KernelOp,
    LoadUopsOp,
    Memory,
    TransferOp,
    Unit,
)
from tcopt.support.errors import UnsupportedError

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
    """

    unit: Unit
    pops: tuple[Unit, ...] = ()
    pushes: tuple[Unit, ...] = ()
    op: Operation | None = field(default=None, compare=False, repr=False)


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
    def factors(self) -> tuple[Pair, Pair, Pair]:
        """The steps of all fields of a micro-op."""
        return self.dst, self.src, (0, 0)


@dataclass(frozen=True, kw_only=True)
class Gemm(Compute):
    """`acc[dst] += inp[src] . wgt[wgt]^T`, or `acc[dst] = 0`."""

    wgt: Pair
    reset: bool

    @property
    def factors(self) -> tuple[Pair, Pair, Pair]:
        return self.dst, self.src, self.wgt


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
        self.loaded = (0, 0)
        """Address of a loaded micro-op on the accelerator and in the table."""

    def read(self) -> Stream:
        body = self.program.body.block
        buffers = tuple(
            _buffer(value, value.name_hint or f"arg{number}")
            for number, value in enumerate(body.args)
        )
        steps = self.program.steps
        instructions = tuple(self.instruction(step) for step in steps)
        if not self.table and any(isinstance(step, RelayOp) for step in steps):
            self.table.append((0, 0, 0))
        return Stream(self.program.sym_name.data, buffers, tuple(self.table), instructions)

    def instruction(self, op: StepOp) -> Instruction:
        common = Instruction(
            unit=Unit.COMPUTE if op.unit is None else Unit(op.unit),
            pops=tuple(map(Unit, op.waits_for)),
            pushes=tuple(map(Unit, op.sends_to)),
            op=op,
        )
        match op:
            case TransferOp():
                return self.transfer(op, common)
            case LoadUopsOp():
                kernels = tuple(op.loaded)
                if kernels not in self.places:
                    self.places[kernels] = len(self.table)
                    self.table += (row for kernel in kernels for row in micro_ops_of(kernel))
                self.loaded = (op.first, self.places[kernels])
                return self.load_uops(op.count, common)
            case RelayOp():
                return self.load_uops(1, common)
            case GemmOp():
                dst, src, wgt = _pairs(op.body)
                return Gemm(
                    **vars(common), **_loops(op.body), dst=dst, src=src, wgt=wgt, reset=op.is_reset
                )
            case AluOp():
                dst, src = _pairs(op.body)
                number = op.number
                return Alu(
                    **vars(common), **_loops(op.body), dst=dst, src=src, code=op.code.data,
                    number=number,
                )  # fmt: skip
            case FinishOp():
                return Finish(**vars(common))
            case _:
                raise UnsupportedError(f"VDLA has no instruction for {op.name}", op=op)

    def transfer(self, op: TransferOp, common: Instruction) -> Transfer:
        top, bottom, left, right = op.pads
        return Transfer(
            **vars(common),
            is_store=op.stored is not None,
            memory=op.memory_kind,
            sram=op.first,
            buffer=self.numbers[op.buffer],
            offset=op.start,
            rows=op.rows,
            columns=op.columns,
            stride=op.row_stride,
            pads=(top, bottom, left, right),
        )

    def load_uops(self, count: int, common: Instruction) -> Transfer:
        """Return a load of micro-ops to the address in `loaded`."""
        return Transfer(
            **vars(common),
            is_store=False,
            memory=Memory.UOP,
            sram=self.loaded[0],
            buffer=MICRO_OPS,
            offset=self.loaded[1],
            rows=1,
            columns=count,
            stride=count,
        )


def micro_ops_of(kernel: KernelOp) -> list[MicroOp]:
    """Return the micro-ops of a kernel, with all three fields."""
    if kernel.kind.data is KernelKind.ALU:
        return [(dst, src, 0) for dst, src in kernel.rows]
    return [(dst, src, wgt) for dst, src, wgt in kernel.rows]


def _loops(kernel: KernelOp) -> dict[str, Any]:
    return {
        "uop_begin": kernel.place,
        "uop_end": kernel.place + kernel.size,
        "loops": _pair(kernel.extents, 1),
    }


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
