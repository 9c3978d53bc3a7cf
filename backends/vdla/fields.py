"""Layout of instructions: fields by kind of instruction, from the lowest bit up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tcopt.dialects.vdla import WIDTHS, Unit

Layout = tuple[tuple[str, int], ...]
"""Names and widths of fields, from bit 0 up; a dash is padding."""

INSTRUCTION_BITS = 128
OPCODES = ("load", "store", "gemm", "finish", "alu")

FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")
"""The token flags of an instruction, in the order of their bits."""

_HEAD: Layout = (("opcode", 3), *((flag, 1) for flag in FLAGS))


def _loops(*fields: str) -> Iterable[tuple[str, int]]:
    for field in fields:
        yield f"{field}_out", WIDTHS[field]
        yield f"{field}_in", WIDTHS[field]


_KERNEL: Layout = (
    ("uop_begin", WIDTHS["uop_begin"]),
    ("uop_end", WIDTHS["uop_end"]),
    *_loops("loop"),
    ("-", 1),
)

LAYOUTS: Mapping[str, Layout] = {
    "transfer": (
        *_HEAD,
        ("memory", 3),
        ("sram", WIDTHS["sram"]),
        ("dram", WIDTHS["dram"]),
        ("-", 6),
        ("rows", WIDTHS["rows"]),
        ("columns", WIDTHS["columns"]),
        ("stride", WIDTHS["stride"]),
        *((f"pad_{side}", WIDTHS["pad"]) for side in ("top", "bottom", "left", "right")),
    ),
    "gemm": (*_HEAD, ("reset", 1), *_KERNEL, *_loops("dst", "src", "wgt")),
    "alu": (
        *_HEAD,
        ("-", 1),
        *_KERNEL,
        *_loops("dst", "src"),
        ("code", 3),
        ("use_imm", 1),
        ("imm", WIDTHS["imm"]),
    ),
    "finish": _HEAD,
    "micro_op": (("dst", WIDTHS["dst"]), ("src", WIDTHS["src"]), ("wgt", WIDTHS["wgt"])),
}
"""Layouts by kind of instruction. Padding makes sure that no field crosses bit 64."""


def flag_of(unit: Unit, verb: str, other: Unit) -> str:
    """Return the flag of an instruction of `unit` for a token of its neighbour `other`."""
    return f"{verb}_{'prev' if other is unit.previous else 'next'}"


def pack(layout: Layout, values: Mapping[str, int]) -> int:
    """Pack unsigned field values into an integer."""
    word, at = 0, 0
    for name, width in layout:
        value = values.get(name, 0)
        assert 0 <= value < 1 << width, (name, value)
        word |= value << at
        at += width
    return word


def unpack(layout: Layout, word: int) -> dict[str, int]:
    """Unpack the fields of an integer."""
    values: dict[str, int] = {"-": 0}
    for name, width in layout:
        value = word & ((1 << width) - 1)
        values[name] = value | (values["-"] if name == "-" else 0)
        word >>= width
    values["-"] |= word
    return values
