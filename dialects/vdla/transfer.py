"""Loads and stores of tiles between memory and the accelerator."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, IntegerAttr, IntegerType, MemRefType, NoneAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.accelerator import Effects
from tcopt.dialects.accelerator.tasks import Access, Entries
from tcopt.dialects.target import AcceleratorFacts, VdlaTargetAttr
from tcopt.dialects.vdla.attrs import LOADED, STORED, KernelType, Memory, MemoryAttr, Unit
from tcopt.dialects.vdla.fields import check_entry, check_field
from tcopt.dialects.vdla.instruction import InstructionOp, parse_known_operand
from tcopt.dialects.vdla.kernel import KernelOp
from tcopt.support.ir.literals import INTEGERS, integers, number_list

NO_PAD = (0, 0, 0, 0)

VALID_KERNELS = "kernels"
"""Entry of the known contents of memories: kernels whose micro-ops are at their address, by id."""

_ELEMENT_BITS = {
    Memory.WGT: 8,
    Memory.INP: 8,
    Memory.ACC: 32,
    Memory.OUT: 8,
    Memory.ACC8: 8,
}


class TransferOp(InstructionOp, ABC):
    """Transfer of a tile of entries, whose rows are strided in memory and contiguous on the
    accelerator. Addresses are in entries of the named memory."""

    MEMORIES: ClassVar[tuple[Memory, ...]]

    memory = prop_def(MemoryAttr)
    sram = prop_def(IntegerAttr[I64])
    buffer = operand_def(MemRefType)
    offset = prop_def(IntegerAttr[I64])
    shape = prop_def(INTEGERS)
    """Rows and columns of the tile."""
    stride = prop_def(IntegerAttr[I64])
    """Entries between the starts of consecutive rows in memory."""
    pad = prop_def(INTEGERS)
    """Zero padding on the accelerator: rows above and below, columns left and right."""

    def __init__(
        self,
        memory: Memory,
        sram: int,
        buffer: SSAValue,
        offset: int,
        shape: tuple[int, int],
        stride: int | None = None,
        pad: Sequence[int] = NO_PAD,
    ):
        """Without a stride, rows are contiguous."""
        super().__init__(
            operands=[buffer],
            properties={
                "memory": MemoryAttr(memory),
                "sram": IntegerAttr(sram, i64),
                "offset": IntegerAttr(offset, i64),
                "shape": number_list(*shape),
                "stride": IntegerAttr(shape[1] if stride is None else stride, i64),
                "pad": number_list(*pad),
            },
        )

    @property
    def memory_kind(self) -> Memory:
        return self.memory.data

    @property
    def first(self) -> int:
        """The first entry of the tile, including padding, in the accelerator's memory."""
        return self.sram.value.data

    @property
    def start(self) -> int:
        """The first entry of the tile in the buffer."""
        return self.offset.value.data

    @property
    def rows(self) -> int:
        return integers(self.shape)[0]

    @property
    def columns(self) -> int:
        return integers(self.shape)[1]

    @property
    def row_stride(self) -> int:
        return self.stride.value.data

    @property
    def pads(self) -> tuple[int, ...]:
        return integers(self.pad)

    @property
    def sram_count(self) -> int:
        """The number of entries on the accelerator, including padding."""
        top, bottom, left, right = self.pads
        return (self.rows + top + bottom) * (self.columns + left + right)

    @property
    def dram_end(self) -> int:
        """The entry of the buffer after the last one of the tile."""
        return self.start + (self.rows - 1) * self.row_stride + self.columns

    def verify_fields(self) -> None:
        super().verify_fields()
        if self.memory_kind not in self.MEMORIES:
            known = ", ".join(self.MEMORIES)
            raise VerifyException(f"the memory {self.memory_kind} is not one of {known}")
        if len(self.shape) != 2 or len(self.pad) != len(NO_PAD):
            raise VerifyException("a tile must have rows, columns and four pads")
        check_field("sram", self.first, "the address on the accelerator")
        check_field("dram", self.start, "the address in memory")
        check_field("rows", self.rows, "the number of rows", least=1)
        check_field("columns", self.columns, "the number of columns", least=1)
        check_field("stride", self.row_stride, "the stride")
        for pad in self.pads:
            check_field("pad", pad, "a pad")
        self._verify_buffer()

    def _verify_buffer(self) -> None:
        type_ = self.buffer.type
        verify_buffer(type_)
        bits = _ELEMENT_BITS[self.memory_kind]
        if not isa(type_, MemRefType) or type_.element_type != IntegerType(bits):
            raise VerifyException(f"{self.memory_kind} holds i{bits}, not the elements of {type_}")

    def effects(self, facts: AcceleratorFacts, spaces: Mapping[SSAValue, str]) -> Effects:
        assert isinstance(facts, VdlaTargetAttr)
        place = slice(self.first, self.first + self.sram_count)
        local = (Access(self.memory_kind.place, place),)
        size = facts.entry_bytes[self.memory_kind]
        outer = (Access(spaces[self.buffer], self.outer(size // facts.granule)),)
        reads, writes = (outer, local) if self.stored is None else (local, outer)
        row = self.columns * size
        return Effects(
            reads,
            writes,
            rows=self.rows,
            row_bytes=row,
            bytes=self.rows * row,
            stores=self.stored is not None,
        )

    def outer(self, width: int) -> Entries:
        """Return the parts of the buffer that it transfers, `width` for each entry."""
        if self.rows == 1 or self.row_stride == self.columns:
            return slice(self.start * width, (self.start + self.rows * self.columns) * width)
        rows = self.start + np.arange(self.rows) * self.row_stride
        return (rows[:, None] * width + np.arange(self.columns * width)).reshape(-1)

    def verify_on(self, machine: VdlaTargetAttr) -> None:
        memory = self.memory_kind
        last, there = self.first + self.sram_count, machine.entries[memory]
        if last > there:
            raise VerifyException(
                f"entries {self.first} to {last - 1} of {memory}, which has {there}"
            )
        assert isa(self.buffer.type, MemRefType)
        size, entry = buffer_bytes(self.buffer.type), machine.entry_bytes[memory]
        if size % entry:
            raise VerifyException(
                f"{self.buffer.type} has {size} bytes, not a multiple of an entry of {memory} "
                f"({entry} bytes)"
            )
        if self.dram_end > size // entry:
            raise VerifyException(
                f"entries {self.start} to {self.dram_end - 1} of a buffer of {size // entry}"
            )

    @classmethod
    def parse_tile(cls, parser: Parser) -> tuple[object, ...]:
        """Parse the arguments of the op."""
        memory = parser.parse_str_enum(Memory)
        sram = _integer(parser)
        parser.parse_punctuation(",")
        buffer = parse_known_operand(parser)
        parser.parse_punctuation("[")
        offset = _integer(parser)
        parser.parse_punctuation("]")
        parser.parse_punctuation(":")
        rows = parser.parse_shape_dimension(allow_dynamic=False)
        parser.parse_shape_delimiter()
        columns = parser.parse_shape_dimension(allow_dynamic=False)
        stride = _integer(parser) if parser.parse_optional_keyword("stride") else columns
        pad: Sequence[int] = NO_PAD
        if parser.parse_optional_keyword("pad"):
            square = parser.Delimiter.SQUARE
            pad = parser.parse_comma_separated_list(square, lambda: _integer(parser))
        return memory, sram, buffer, offset, (rows, columns), stride, pad

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.memory_kind} {self.first}, ")
        printer.print_ssa_value(self.buffer)
        printer.print_string(f"[{self.start}] : {self.rows}x{self.columns}")
        if self.row_stride != self.columns:
            printer.print_string(f" stride {self.row_stride}")
        if any(self.pads):
            printer.print_string(f" pad {list(self.pads)}")
        self.print_tail(printer)


@irdl_op_definition
class LoadOp(TransferOp):
    """Loads a tile: `vdla.load inp 0, %x[0] : 8x29 stride 56 pad [1, 0, 1, 0] push(compute)`.

    The example copies a tile from entry 0 of the buffer to entry 0 of `inp`, with a row of zeros
    above it and a zero to the left of each row. The compute unit loads registers (`acc`, and
    `acc8` from bytes), the load unit loads the other memories.
    """

    name = "vdla.load"
    MEMORIES: ClassVar = LOADED

    traits = traits_def(MemoryReadEffect())

    @property
    def unit(self) -> Unit:
        return Unit.COMPUTE if self.memory_kind.place is Memory.ACC else Unit.LOAD

    def verify_on(self, machine: VdlaTargetAttr) -> None:
        super().verify_on(machine)
        if self.memory_kind is Memory.ACC8 and not machine.has("load_i8"):
            raise VerifyException('the target does not load bytes into registers ("load_i8")')

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        op = cls(*cls.parse_tile(parser))  # pyright: ignore[reportArgumentType]
        op.parse_tail(parser)
        return op


@irdl_op_definition
class StoreOp(TransferOp):
    """Stores a tile of registers: `vdla.store acc 0, %y[0] : 7x28 stride 56 pop(compute)`.

    `acc` stores registers with 32 bits per lane, `out` the low byte of each lane.
    """

    name = "vdla.store"
    MEMORIES: ClassVar = STORED

    traits = traits_def(MemoryWriteEffect())

    @property
    def unit(self) -> Unit:
        return Unit.STORE

    @property
    def stored(self) -> SSAValue | None:
        return self.buffer

    def verify_fields(self) -> None:
        super().verify_fields()
        if any(self.pads):
            raise VerifyException("a store has no pads")
        if self.rows > 1 and self.row_stride < self.columns:
            raise VerifyException(
                f"rows of {self.columns} entries with stride {self.row_stride} overlap"
            )

    def verify_on(self, machine: VdlaTargetAttr) -> None:
        super().verify_on(machine)
        stored = "i8" if self.memory_kind is Memory.OUT else "i32"
        if stored not in machine.stored_types:
            known = ", ".join(machine.stored_types)
            raise VerifyException(f"the target does not store {stored}, its results are {known}")

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        op = cls(*cls.parse_tile(parser))  # pyright: ignore[reportArgumentType]
        op.parse_tail(parser)
        return op


@irdl_op_definition
class LoadUopsOp(InstructionOp):
    """Loads the micro-ops of kernels to their addresses: `vdla.load_uops %k0, %k1`.

    It is a single transfer, so the kernels must be adjacent, in this order.
    """

    name = "vdla.load_uops"

    kernels = var_operand_def(KernelType)

    traits = traits_def(MemoryReadEffect())

    def __init__(self, kernels: Sequence[SSAValue]):
        super().__init__(operands=[kernels])

    @property
    def unit(self) -> Unit:
        return Unit.COMPUTE

    @property
    def loaded(self) -> list[KernelOp]:
        """The kernels, in the order of their addresses."""
        return [kernel_of(value) for value in self.kernels]

    @property
    def first(self) -> int:
        """The first entry of `uop` that is written."""
        return self.loaded[0].place

    @property
    def count(self) -> int:
        """The total number of micro-ops."""
        return sum(kernel.size for kernel in self.loaded)

    def effects(self, facts: AcceleratorFacts, spaces: Mapping[SSAValue, str]) -> Effects:
        assert isinstance(facts, VdlaTargetAttr)
        size = self.count * facts.entry_bytes[Memory.UOP]
        return Effects(rows=1, row_bytes=size, bytes=size)

    def follow(self, contents: dict[str, dict[int, Any]]) -> None:
        loaded = contents.setdefault(Memory.UOP, {})
        for kernel in self.loaded:
            loaded.update(enumerate(kernel.rows, kernel.place))
        contents[VALID_KERNELS] = {}

    def verify_on(self, machine: VdlaTargetAttr) -> None:
        check_entry(Memory.UOP, self.first + self.count - 1, machine)

    def verify_fields(self) -> None:
        super().verify_fields()
        if not self.kernels:
            raise VerifyException("no kernel is named")
        end = self.loaded[0].place
        for kernel in self.loaded:
            if kernel.place != end:
                raise VerifyException(
                    f"a kernel is at {kernel.place}, but the one before it ends at {end}"
                )
            end += kernel.size

    @classmethod
    def parse(cls, parser: Parser) -> LoadUopsOp:
        kernels = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: parse_known_operand(parser)
        )
        op = cls(kernels)
        op.parse_tail(parser)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.kernels, printer.print_ssa_value)
        self.print_tail(printer)


def kernel_of(value: SSAValue) -> KernelOp:
    """Return the kernel that defines a value.

    Raises:
        VerifyException: the value is not defined by a kernel.
    """
    if not isinstance(value.owner, KernelOp):
        raise VerifyException("an operand is not the result of vdla.kernel")
    return value.owner


def verify_buffer(type: Attribute) -> None:
    """Raise VerifyException unless a type is a contiguous buffer of static shape, of i8 or i32."""
    if not isa(type, MemRefType) or type.element_type not in (IntegerType(8), IntegerType(32)):
        raise VerifyException(f"{type} is not a buffer of i8 or i32")
    if not isinstance(type.layout, NoneAttr) or any(n < 0 for n in type.get_shape()):
        raise VerifyException(f"{type} is not a contiguous buffer of static size")


def buffer_bytes(type: Attribute) -> int:
    """Return the size of a buffer of integers in bytes."""
    assert isa(type, MemRefType)
    return prod(type.get_shape()) * (4 if type.element_type == IntegerType(32) else 1)


def _integer(parser: Parser) -> int:
    return parser.parse_integer(allow_boolean=False)
