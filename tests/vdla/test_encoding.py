"""Instructions of accelerator programs round-trip through their encoding, including random ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs.vdla_programs import Conv, ConvWriter
from running.examples import examples
from tcopt.backends.vdla.assembly import read_assembly, write_assembly
from tcopt.backends.vdla.disassembly import program_of
from tcopt.backends.vdla.encoding import Encoded, decode, encode
from tcopt.backends.vdla.fields import LAYOUTS, pack, unpack
from tcopt.backends.vdla.machines import MACHINES
from tcopt.backends.vdla.source import stream_for
from tcopt.backends.vdla.stream import (
    MICRO_OPS,
    Alu,
    Buffer,
    Finish,
    Gemm,
    Instruction,
    Stream,
    Transfer,
    stream_of,
)
from tcopt.dialects.vdla import AluCode, Memory, Unit
from tcopt.support.errors import InputError, ParsingError, UnsupportedError
from tcopt.support.ir.verify import verify

VTA = MACHINES["vta"]

CONVS = {
    "two threads": Conv(32, 8, 64, 3, 1, 1, 4, 8, oc_threads=2, tile_co=2),
    "alu": Conv(32, 8, 32, 3, 1, 1, 4, 4, tile_ci=2, h_threads=2, alu=True),
}


def machine_for(conv: Conv):
    return MACHINES["vta" if conv.alu else "vdla"]


@pytest.mark.parametrize("conv", CONVS.values(), ids=CONVS)
def test_a_program_comes_back_from_its_instructions(conv: Conv) -> None:
    machine = machine_for(conv)
    stream = stream_for(ConvWriter(conv).write(), machine)
    encoded = encode(stream, machine)
    assert decode(encoded, machine) == stream
    assert read_assembly(write_assembly(stream, machine)) == [encoded]
    program = program_of(decode(encoded, machine))
    verify(program)
    assert stream_of(program) == stream
    assert str(program_of(stream_of(program))) == str(program)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "micro_op"])
def test_instructions_have_128_bits_and_fields_do_not_cross_their_middle(layout: str) -> None:
    at = 0
    for _, width in LAYOUTS[layout]:
        assert at // 64 == (at + width - 1) // 64
        at += width
    assert at in (128, 7)
    assert sum(width for _, width in LAYOUTS["micro_op"]) == 32


TOKENS = {
    Unit.LOAD: [Unit.COMPUTE],
    Unit.COMPUTE: [Unit.LOAD, Unit.STORE],
    Unit.STORE: [Unit.COMPUTE],
}


def number(bits: int):
    return st.integers(0, (1 << bits) - 1)


def pairs(bits: int):
    return st.tuples(number(bits), number(bits))


def tokens(draw: st.DrawFn, unit: Unit) -> dict[str, object]:
    units = TOKENS[unit]
    return {
        "unit": unit,
        "pops": tuple(u for u in units if draw(st.booleans())),
        "pushes": tuple(u for u in units if draw(st.booleans())),
    }


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    """Return an instruction with random field values."""
    kind = draw(st.sampled_from(["transfer", "uops", "gemm", "alu", "finish"]))
    if kind == "transfer":
        memory = draw(st.sampled_from([Memory.WGT, Memory.INP, Memory.ACC, Memory.ACC8]))
        unit = Unit.LOAD if memory in (Memory.WGT, Memory.INP) else Unit.COMPUTE
        is_store = draw(st.booleans())
        if is_store:
            memory, unit = draw(st.sampled_from([Memory.ACC, Memory.OUT])), Unit.STORE
        pads = tuple(draw(number(4)) for _ in range(4))
        return Transfer(
            **tokens(draw, unit), is_store=is_store, memory=memory, sram=draw(number(16)),
            buffer=draw(st.integers(0, 1)), offset=draw(st.integers(0, 3)), rows=draw(number(16)),
            columns=draw(number(16)), stride=draw(number(16)), pads=pads,
        )  # fmt: skip
    if kind == "uops":
        count = draw(number(13))
        return Transfer(
            **tokens(draw, Unit.COMPUTE), is_store=False, memory=Memory.UOP,
            sram=draw(number(13)), buffer=MICRO_OPS, offset=draw(number(13)), rows=1,
            columns=count, stride=count,
        )  # fmt: skip
    common = tokens(draw, Unit.COMPUTE)
    if kind == "finish":
        return Finish(**common)
    common |= {
        "uop_begin": draw(number(13)), "uop_end": draw(number(14)), "loops": draw(pairs(14)),
        "dst": draw(pairs(11)), "src": draw(pairs(11)),
    }  # fmt: skip
    if kind == "gemm":
        return Gemm(**common, wgt=draw(pairs(10)), reset=draw(st.booleans()))
    code = draw(st.sampled_from(list(AluCode)))
    operand = draw(st.none() | st.integers(-(1 << 15), (1 << 15) - 1))
    return Alu(**common, code=code, number=operand)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(instructions(), max_size=6),
    st.lists(st.tuples(number(11), number(11), number(10)), max_size=5),
)
def test_every_field_survives(
    ops: list[Instruction], micro_ops: list[tuple[int, int, int]]
) -> None:
    buffers = (Buffer("x", (4, 16, 16), 8), Buffer("y", (64, 16), 32))
    stream = Stream("random", buffers, tuple(micro_ops), tuple(ops))
    encoded = encode(stream, VTA)
    assert decode(encoded, VTA) == stream
    assert read_assembly(write_assembly(stream, VTA)) == [encoded]


@given(st.sampled_from(sorted(LAYOUTS)), st.integers(0, (1 << 128) - 1))
def test_words_are_their_fields(layout: str, word: int) -> None:
    """In a layout without gaps, any word is determined by its fields."""
    fields = LAYOUTS[layout]
    values = unpack(fields, word & ((1 << sum(width for _, width in fields)) - 1))
    named = {name: value for name, value in values.items() if name != "-"}
    assert unpack(fields, pack(fields, named)) == {**values, "-": 0}


def encoded_with(word: int) -> Encoded:
    words = np.array([[word & ((1 << 64) - 1), word >> 64]], np.uint64)
    return Encoded("bad", (), 0, np.zeros(0, np.uint32), words)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (7, "is not an instruction"),
        (3 | 1 << 100, "reserved bits are set"),
        (4 | 1 << 7, "reserved bits are set"),
        (1 | 1 << 3 | 4 << 7 | 1 << 4, "no tokens of its next side"),
        (0 | 1 << 7, "there is nothing at address"),
    ],
)
def test_what_is_no_instruction_is_refused(word: int, message: str) -> None:
    encoded = encoded_with(word)
    if "next" in message:
        encoded = Encoded("bad", ((Buffer("y", (16,), 8), 0),), 0, encoded.micro_ops,
                          encoded.instructions)  # fmt: skip
    with pytest.raises(InputError, match=message):
        decode(encoded, VTA)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        ".program oops",
        '.buffer "x" i8 [4] at 0x0',
        '.program "p"\n.instructions\n0: 12',
        '.program "p"\n.micro_ops at 0x0\n0: 123456789',
        '.program "p"\n.weights',
    ],
)
def test_what_is_no_assembly_is_refused(text: str) -> None:
    with pytest.raises(ParsingError, match="this is not a line of a program"):
        read_assembly(text)


def test_addresses_have_32_bits() -> None:
    """An address counts entries: 2^32 of 16 bytes are 64 GiB."""
    far = Transfer(
        unit=Unit.LOAD, is_store=False, memory=Memory.INP, sram=0, buffer=1, offset=0, rows=1,
        columns=1, stride=1,
    )  # fmt: skip
    buffers = (Buffer("x", (1 << 36,), 8), Buffer("y", (16,), 8))
    with pytest.raises(UnsupportedError, match="32 bits of an address"):
        encode(Stream("far", buffers, (), (far,)), VTA)


def test_micro_ops_that_were_never_loaded_have_no_kernel() -> None:
    gemm = Gemm(
        unit=Unit.COMPUTE, uop_begin=0, uop_end=1, loops=(1, 1), dst=(0, 0), src=(0, 0),
        wgt=(0, 0), reset=True,
    )  # fmt: skip
    with pytest.raises(InputError, match="executed, but not loaded"):
        program_of(Stream("p", (), (), (gemm,)))
