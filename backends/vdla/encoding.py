"""Encoding of streams as 128-bit instructions and 32-bit micro-ops, and decoding.

The layout of instructions is defined in `fields.py` and shown as a table in docs/vdla.md.
Addresses in instructions are in entries, relative to address 0. The micro-op table is at address 0
and the buffers follow, aligned to every entry size.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.backends.vdla.fields import FLAGS, LAYOUTS, OPCODES, flag_of, pack, unpack
from tcopt.backends.vdla.stream import (
    MICRO_OPS,
    Alu,
    Buffer,
    Compute,
    Finish,
    Gemm,
    Instruction,
    MicroOp,
    Stream,
    Transfer,
)
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import WIDTHS, AluCode, Memory, Unit
from tcopt.support.errors import InputError, UnsupportedError

_MEMORIES = list(Memory)
_CODES = list(AluCode)
_PADS = ("pad_top", "pad_bottom", "pad_left", "pad_right")
_HALF = 64


@dataclass(frozen=True)
class Encoded:
    """A program in its machine-readable form.

    Attributes:
        buffers: buffers with their byte addresses.
        table: the address of the micro-ops.
        micro_ops: one 32-bit word each.
        instructions: two 64-bit words each, the low half first.
    """

    name: str
    buffers: tuple[tuple[Buffer, int], ...]
    table: int
    micro_ops: NDArray[np.uint32]
    instructions: NDArray[np.uint64]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoded) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        words = (self.micro_ops.tobytes(), self.instructions.tobytes())
        return (self.name, self.buffers, self.table, *words)


def encode(stream: Stream, target: VdlaTargetAttr) -> Encoded:
    """Return the encoded instructions and micro-ops of a stream.

    Raises:
        UnsupportedError: buffers exceed the address range.
    """
    align = lcm(*target.entry_bytes.values())
    address = _up(4 * len(stream.micro_ops), align)
    addresses: list[int] = []
    for buffer in stream.buffers:
        addresses.append(address)
        address += _up(buffer.bytes, align)
    writer = _Writer(target, addresses)
    words = [writer.word(instruction) for instruction in stream.instructions]
    mask = (1 << _HALF) - 1
    return Encoded(
        stream.name,
        tuple(zip(stream.buffers, addresses, strict=True)),
        0,
        np.array([_micro_op_word(each) for each in stream.micro_ops], np.uint32),
        np.array([(w & mask, w >> _HALF) for w in words], np.uint64).reshape(-1, 2),
    )


def decode(encoded: Encoded, target: VdlaTargetAttr) -> Stream:
    """Return the stream of encoded instructions.

    Raises:
        InputError: an instruction is invalid, or addresses no buffer.
    """
    reader = _Reader(target, encoded)
    pairs: list[list[int]] = encoded.instructions.tolist()
    instructions = [
        reader.instruction(number, low | high << _HALF) for number, (low, high) in enumerate(pairs)
    ]
    words: list[int] = encoded.micro_ops.tolist()
    buffers = tuple(buffer for buffer, _ in encoded.buffers)
    return Stream(encoded.name, buffers, tuple(map(_micro_op, words)), tuple(instructions))


def _up(size: int, align: int) -> int:
    return -(-size // align) * align


def _micro_op_word(micro_op: MicroOp) -> int:
    return pack(LAYOUTS["micro_op"], dict(zip(("dst", "src", "wgt"), micro_op, strict=True)))


def _micro_op(word: int) -> MicroOp:
    fields = unpack(LAYOUTS["micro_op"], word)
    return fields["dst"], fields["src"], fields["wgt"]


class _Writer:
    """Encoder of instructions."""

    def __init__(self, target: VdlaTargetAttr, addresses: Sequence[int]):
        self.entry_bytes = target.entry_bytes
        self.addresses = addresses

    def word(self, instruction: Instruction) -> int:
        values = {flag_of(instruction.unit, "pop", unit): 1 for unit in instruction.pops}
        values |= {flag_of(instruction.unit, "push", unit): 1 for unit in instruction.pushes}
        if isinstance(instruction, Transfer):
            return self.transfer(instruction, values)
        if isinstance(instruction, Gemm):
            values |= _kernel(instruction) | {"reset": int(instruction.reset)}
            values |= _pair("wgt", instruction.wgt)
            return self.of("gemm", "gemm", values)
        if isinstance(instruction, Alu):
            number = instruction.number
            values |= _kernel(instruction)
            values |= {"code": instruction.code.number, "use_imm": int(number is not None)}
            values["imm"] = (number or 0) % (1 << WIDTHS["imm"])
            return self.of("alu", "alu", values)
        return self.of("finish", "finish", values)

    def transfer(self, instruction: Transfer, values: dict[str, int]) -> int:
        memory = instruction.memory
        base = 0 if instruction.buffer == MICRO_OPS else self.addresses[instruction.buffer]
        dram = base // self.entry_bytes[memory] + instruction.offset
        if dram >> WIDTHS["dram"]:
            raise UnsupportedError(
                f"entry {dram} of memory is beyond the {WIDTHS['dram']} bits of an address",
                op=instruction.op,
                hint="use smaller buffers, or several programs",
            )
        values |= {
            "memory": memory.number,
            "sram": instruction.sram,
            "dram": dram,
            "rows": instruction.rows,
            "columns": instruction.columns,
            "stride": instruction.stride,
            **dict(zip(_PADS, instruction.pads, strict=True)),
        }
        return self.of("transfer", "store" if instruction.is_store else "load", values)

    def of(self, layout: str, opcode: str, values: dict[str, int]) -> int:
        return pack(LAYOUTS[layout], {**values, "opcode": OPCODES.index(opcode)})


def _kernel(instruction: Compute) -> dict[str, int]:
    return {
        "uop_begin": instruction.uop_begin,
        "uop_end": instruction.uop_end,
        **_pair("loop", instruction.loops),
        **_pair("dst", instruction.dst),
        **_pair("src", instruction.src),
    }


def _pair(name: str, numbers: tuple[int, int]) -> dict[str, int]:
    return {f"{name}_out": numbers[0], f"{name}_in": numbers[1]}


class _Reader:
    """Decoder of instructions."""

    def __init__(self, target: VdlaTargetAttr, encoded: Encoded):
        self.entry_bytes = target.entry_bytes
        self.buffers = encoded.buffers
        self.starts = [address for _, address in encoded.buffers]
        self.table = encoded.table

    def instruction(self, number: int, word: int) -> Instruction:
        try:
            return self.read(word)
        except (LookupError, ValueError) as error:
            raise InputError(
                f"{word:#034x} is not an instruction: {error}", where=f"{number}"
            ) from None

    def read(self, word: int) -> Instruction:
        opcode = OPCODES[word & 7]
        layout = "transfer" if opcode in ("load", "store") else opcode
        fields = unpack(LAYOUTS[layout], word)
        if fields["-"]:
            raise ValueError("reserved bits are set")
        if layout == "transfer":
            return self.transfer(opcode == "store", fields)
        tokens = _tokens(Unit.COMPUTE, fields)
        if opcode == "finish":
            return Finish(unit=Unit.COMPUTE, pops=tokens[0], pushes=tokens[1])
        # A single call for both would lose the types of their fields.
        kernel: dict[str, Any] = {
            "unit": Unit.COMPUTE,
            "pops": tokens[0],
            "pushes": tokens[1],
            "uop_begin": fields["uop_begin"],
            "uop_end": fields["uop_end"],
            **{
                to: (fields[f"{name}_out"], fields[f"{name}_in"])
                for to, name in (("loops", "loop"), ("dst", "dst"), ("src", "src"))
            },
        }
        if opcode == "gemm":
            wgt = (fields["wgt_out"], fields["wgt_in"])
            return Gemm(**kernel, wgt=wgt, reset=bool(fields["reset"]))
        imm, half = fields["imm"], 1 << (WIDTHS["imm"] - 1)
        number = imm - 2 * half if imm >= half else imm
        code = _CODES[fields["code"]]
        return Alu(**kernel, code=code, number=number if fields["use_imm"] else None)

    def transfer(self, is_store: bool, fields: dict[str, int]) -> Transfer:
        memory = _MEMORIES[fields["memory"]]
        buffer, offset = self.place(fields["dram"], memory)
        loads_registers = memory in (Memory.UOP, Memory.ACC, Memory.ACC8)
        unit = Unit.STORE if is_store else Unit.COMPUTE if loads_registers else Unit.LOAD
        pops, pushes = _tokens(unit, fields)
        top, bottom, left, right = (fields[name] for name in _PADS)
        return Transfer(
            unit=unit,
            pops=pops,
            pushes=pushes,
            is_store=is_store,
            memory=memory,
            sram=fields["sram"],
            buffer=buffer,
            offset=offset,
            rows=fields["rows"],
            columns=fields["columns"],
            stride=fields["stride"],
            pads=(top, bottom, left, right),
        )

    def place(self, dram: int, memory: Memory) -> tuple[int, int]:
        """Return the buffer that contains an address, and the entry in it."""
        entry = self.entry_bytes[memory]
        if memory is Memory.UOP:
            return MICRO_OPS, dram - self.table // entry
        number = bisect_right(self.starts, dram * entry) - 1
        if number < 0:
            raise ValueError(f"there is nothing at address {dram * entry}")
        return number, dram - self.starts[number] // entry


def _tokens(unit: Unit, fields: dict[str, int]) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
    sides = {"prev": unit.previous, "next": unit.next}
    found: dict[str, list[Unit]] = {"pop": [], "push": []}
    for flag in FLAGS:
        verb, side = flag.split("_")
        other = sides[side]
        if not fields[flag]:
            continue
        if other is None:
            raise ValueError(f"the {unit} unit has no tokens of its {side} side")
        found[verb].append(other)
    return tuple(found["pop"]), tuple(found["push"])
