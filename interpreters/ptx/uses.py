"""Analysis of the bytes of each register that instructions read.

LLVM may load a whole word or vector and use only some of its bytes. Concurrent writes of the
unused bytes by other threads are not races.
"""

from __future__ import annotations

import re
from collections import defaultdict

from tcopt.interpreters.ptx import types
from tcopt.interpreters.ptx.text import PtxInstruction, PtxKernel

REGISTER = re.compile(r"%\w+")
_ALL = -1


class Uses:
    """Instructions of a kernel that use each register."""

    def __init__(self, kernel: PtxKernel):
        self._of: defaultdict[str, list[PtxInstruction]] = defaultdict(list)
        for each in kernel.body:
            if isinstance(each, PtxInstruction):
                for name in {name for text in each.texts for name in REGISTER.findall(text)}:
                    self._of[name].append(each)

    def bytes_read(self, register: str, definition: PtxInstruction | None) -> int:
        """Return a bit mask of the bytes of a register that may be read, except by `definition`."""
        read = 0
        for each in self._of[register]:
            if each is not definition:
                read |= self._read_by(register, each)
        return read

    def _read_by(self, register: str, each: PtxInstruction) -> int:
        operands = each.operands
        if len(operands) < 2 or operands[1] != register or operands.count(register) > 1:
            return _ALL
        if each.opcode == "prmt" and each.modifiers == ("b32",) and each.guard != register:
            selectors = _number(operands[3])
            if selectors is not None:
                return sum({1 << (selectors >> 4 * byte & 7) for byte in range(4)}) & 0xF
        if each.opcode == "bfe":
            start, length = _number(operands[2]), _number(operands[3])
            if start is not None and length:
                last = (start + length - 1) // 8
                return (1 << last + 1) - (1 << start // 8)
        if each.opcode == "mov" and isinstance(operands[0], tuple):
            part = types.bits(each.type) // 8 // len(operands[0])
            return sum(
                ((1 << part) - 1) << part * number
                for number, name in enumerate(operands[0])
                if name != "_" and self.bytes_read(name, each)
            )
        return _ALL


def _number(operand: object) -> int | None:
    """Return the value of an integer immediate; None for other operands."""
    if not isinstance(operand, str) or not operand[:1].isdigit():
        return None
    return int(operand.rstrip("Uu"), 0)
