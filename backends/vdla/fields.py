"""The layout of instructions: fields from the lowest bit up, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tcopt.dialects.vdla import FLAGS, WIDTHS

Layout = tuple[tuple[str, int], ...]
"""Names and widths of fields, from bit 0 up; a dash holds nothing."""

INSTRUCTION_BITS = 128
OPCODES = ("load", "store", "gemm", "finish", "alu")

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
"""By kind of instruction. Fields begin anew at bit 64, which the paddings see to."""


def pack(layout: Layout, values: Mapping[str, int]) -> int:
    """A number of these fields; each must be in its range, without a sign."""
    word, at = 0, 0
    for name, width in layout:
        value = values.get(name, 0)
        assert 0 <= value < 1 << width, (name, value)
        word |= value << at
        at += width
    return word


def unpack(layout: Layout, word: int) -> dict[str, int]:
    """The fields of a number."""
    values: dict[str, int] = {"-": 0}
    for name, width in layout:
        value = word & ((1 << width) - 1)
        values[name] = value | (values["-"] if name == "-" else 0)
        word >>= width
    values["-"] |= word
    return values
