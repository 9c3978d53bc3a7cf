"""Memories, units and operations of the accelerator, and the fields of its instructions."""

from __future__ import annotations

from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import ParametrizedAttribute, SpacedOpaqueSyntaxAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.str_enum import StrEnum


class Memory(StrEnum):
    """A memory as named by transfers, in the order of their encoding.

    `out` and `acc8` access the registers, `acc`, as bytes: a store to `out` writes their low
    bytes, a load from `acc8` sign-extends bytes.
    """

    UOP = "uop"
    WGT = "wgt"
    INP = "inp"
    ACC = "acc"
    OUT = "out"
    ACC8 = "acc8"

    @property
    def number(self) -> int:
        """The encoding of the memory in instructions."""
        return _NUMBERS[self]

    @property
    def place(self) -> Memory:
        """The memory that holds its entries."""
        return Memory.ACC if self in (Memory.OUT, Memory.ACC8) else self


_NUMBERS = {memory: number for number, memory in enumerate(Memory)}

LOADED = (Memory.WGT, Memory.INP, Memory.ACC, Memory.ACC8)
"""Memories that `vdla.load` loads."""

STORED = (Memory.ACC, Memory.OUT)
"""Memories that `vdla.store` stores."""


@irdl_attr_definition
class MemoryAttr(EnumAttribute[Memory], SpacedOpaqueSyntaxAttribute):
    """The memory of the accelerator that a transfer accesses."""

    name = "vdla.memory"


class Unit(StrEnum):
    """A unit of the accelerator. It executes its instructions in order, in parallel with others."""

    LOAD = "load"
    COMPUTE = "compute"
    STORE = "store"

    @property
    def previous(self) -> Unit | None:
        """The neighbour for the flags `pop_prev` and `push_prev`."""
        return _CHAIN[_CHAIN.index(self) - 1] if self is not Unit.LOAD else None

    @property
    def next(self) -> Unit | None:
        """The neighbour for the flags `pop_next` and `push_next`."""
        return _CHAIN[_CHAIN.index(self) + 1] if self is not Unit.STORE else None


_CHAIN = list(Unit)


class KernelKind(StrEnum):
    """The kind of instruction that executes a kernel."""

    GEMM = "gemm"
    ALU = "alu"


@irdl_attr_definition
class KernelKindAttr(EnumAttribute[KernelKind], SpacedOpaqueSyntaxAttribute):
    """The kind of a `vdla.kernel`."""

    name = "vdla.kind"


@irdl_attr_definition
class KernelType(ParametrizedAttribute, TypeAttribute):
    """Two loops around micro-ops, with an address in the memory `uop`."""

    name = "vdla.kernel"


class AluCode(StrEnum):
    """An operation of the alu, in the order of their encoding."""

    MIN = "min"
    MAX = "max"
    ADD = "add"
    SHR = "shr"
    MULH = "mulh"

    @property
    def number(self) -> int:
        """The encoding of the operation in instructions."""
        return _CODES[self]


_CODES = {code: number for number, code in enumerate(AluCode)}


@irdl_attr_definition
class AluCodeAttr(EnumAttribute[AluCode], SpacedOpaqueSyntaxAttribute):
    """The operation of a `vdla.alu`."""

    name = "vdla.code"


WIDTHS = {
    "sram": 16,
    "dram": 32,
    "rows": 16,
    "columns": 16,
    "stride": 16,
    "pad": 4,
    "uop_begin": 13,
    "uop_end": 14,
    "loop": 14,
    "dst": 11,
    "src": 11,
    "wgt": 10,
    "imm": 16,
}
"""Bits of the fields of instructions and micro-ops; `imm` is signed."""

MOST_SHIFT = 31
"""The alu shifts right by -31 to 31 bits; a negative count shifts left."""
