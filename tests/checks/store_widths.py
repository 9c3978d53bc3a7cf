"""Check that x86 code never stores more of a vector lane than the element's width.

LLVM 22 miscompiles a masked store of a truncation if one lane is known to be active: it stores the
whole wide lane. Other checks of it need a machine with AVX-512, so this one inspects the code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_FUNCTION = re.compile(r'^define .*?@"?([^"(]+)"?\(.*?^\}', re.M | re.S)
_MASKED = re.compile(
    r"call void @llvm\.masked\.(?:store|scatter|compressstore)\S*\((<\d+ x \w+>) (\S+),(.*)"
)
_STORE = re.compile(r"^  store (?:atomic )?(<\d+ x \w+>|\w+) ", re.M)
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
_LANE_STORES = {
    **dict.fromkeys(("pextrb",), 1),
    **dict.fromkeys(("pextrw", "movw", "movsh"), 2),
    **dict.fromkeys(("pextrd", "extractps", "movd", "movss"), 4),
    **dict.fromkeys(("pextrq", "movq", "movsd", "movlps", "movlpd", "movhps", "movhpd"), 8),
}
"""Bytes that an instruction stores of a vector register, by mnemonic without the leading `v`."""
_INSTRUCTION = re.compile(r"^\s+v?(\w+)\s+.*%[xyz]mm\d+, [^,]*\((?!%[re]?[sb]p\))[^()]*\)$")


def element_bytes(type: str) -> int:
    """Return the element size of an LLVM type in bytes, or the size of a scalar type."""
    element = type.strip("<>").rpartition(" x ")[2]
    return max(1, (_BITS.get(element) or int(element[1:])) // 8)


def _total_bytes(type: str) -> int:
    count = int(type[1:].split(" x ")[0]) if type.startswith("<") else 1
    return count * element_bytes(type)


def functions(ir: str) -> dict[str, str]:
    """Return the functions of LLVM IR text by name."""
    return {match[1]: match[0] for match in _FUNCTION.finditer(ir)}


def open_masked_stores(ir: str) -> list[str]:
    """Return masked stores whose value LLVM can trace to a truncation, or whose mask has a lane
    known to be active."""
    found: list[str] = []
    for text in functions(ir).values():
        definitions = dict(re.findall(r"^  (%\S+) = (.*)$", text, re.M))
        for line in text.splitlines():
            match = _MASKED.search(line)
            if match is None or "masked.scatter" in line:
                continue
            if line.count("i1 true") == 1 or not _is_fenced(match[2], definitions):
                found.append(line.strip())
    return found


def _is_fenced(value: str, definitions: Mapping[str, str]) -> bool:
    """Whether a value comes from a fence, through casts and shuffles."""
    text = definitions.get(value, "")
    while text.startswith(("bitcast", "shufflevector")):
        operand = re.search(r"%\S+?(?=,| |$)", text)
        text = "" if operand is None else definitions.get(operand[0], "")
    return "@llvm.arithmetic.fence." in text


@dataclass
class _Written:
    """Byte sizes that a function's IR stores."""

    whole: Counter[int] = field(default_factory=Counter)
    lanes: set[int] = field(default_factory=set)

    def explains(self, width: int) -> bool:
        """Whether a store in the IR may store `width` bytes of a register.

        Adjacent small stores are merged, and vectors of odd sizes are stored in parts.
        """
        if width in self.lanes or width in self.whole:
            return True
        small = sum(n for size, n in self.whole.items() if size < width)
        parts = (size for size in self.whole if size > width and size % 16)
        return small > 1 or any(size & width for size in parts)


def wide_lane_stores(ir: str, assembly: str) -> list[str]:
    """Return x86 instructions (AT&T syntax) that store part of a vector register and match no store
    of the IR; stack accesses are spills."""
    written: dict[str, _Written] = {}
    for name, text in functions(ir).items():
        facts = written[name] = _Written()
        facts.whole.update(_total_bytes(type) for type in _STORE.findall(text))
        facts.lanes |= {element_bytes(match[1]) for match in _MASKED.finditer(text)}
    return [
        f"{name}: {line.strip()}"
        for name, line, width in _lane_stores(assembly)
        if name in written and not written[name].explains(width)
    ]


def _lane_stores(assembly: str) -> Iterator[tuple[str, str, int]]:
    name = ""
    for line in assembly.splitlines():
        if line and not line[0].isspace() and ":" in line and not line.startswith(".L"):
            name = line.split(":")[0].strip('"')
        found = _INSTRUCTION.match(line)
        if found is not None and found[1] in _LANE_STORES:
            yield name, line, _LANE_STORES[found[1]]
