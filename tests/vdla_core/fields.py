"""Instruction fields, and constants shared by all parts of the core."""

from __future__ import annotations

from typing import Any

from tcopt.backends.vdla.fields import LAYOUTS

LOAD, COMPUTE, STORE, FETCH = range(4)
"""Requesters of the port; the first three are units."""

UNITS = (LOAD, COMPUTE, STORE)

WORD = 16
"""Bits that the port moves in a cycle."""

INSTRUCTION = 128
"""Bits of an instruction."""

LOAD_OP, STORE_OP, GEMM_OP, FINISH_OP, ALU_OP = range(5)

UOP, WGT, INP, ACC, OUT, ACC8 = range(6)

WORDS = {UOP: 2, WGT: 2, INP: 1, ACC: 4, OUT: 1, ACC8: 1}
"""Words of an entry in memory."""

BITS = {UOP: 32, WGT: 32, INP: 16, ACC: 64}
"""Bits of an entry on the accelerator."""


def field(word: Any, kind: str, name: str) -> Any:
    """Return the bits of an instruction's field."""
    at = 0
    for each, width in LAYOUTS[kind]:
        if each == name:
            return word[at : at + width]
        at += width
    raise KeyError(name)
