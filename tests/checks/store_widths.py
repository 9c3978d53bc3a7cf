"""Whether code for x86 can store more of a vector's lane than the lane's element.

LLVM 22 makes a masked store of a truncation, of which one lane is known to be on, a store of the
whole wide lane. Its tests run on no machine without AVX-512, so the code itself is looked at.
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
"""Bytes that an instruction stores of a vector register, by name without the leading `v`."""
_INSTRUCTION = re.compile(r"^\s+v?(\w+)\s+.*%[xyz]mm\d+, [^,]*\((?!%[re]?[sb]p\))[^()]*\)$")


def element_bytes(type: str) -> int:
    """Bytes of an LLVM type's element; of the type itself if it has none."""
    element = type.strip("<>").rpartition(" x ")[2]
    return max(1, (_BITS.get(element) or int(element[1:])) // 8)


def _total_bytes(type: str) -> int:
    count = int(type[1:].split(" x ")[0]) if type.startswith("<") else 1
    return count * element_bytes(type)


def functions(ir: str) -> dict[str, str]:
    """The functions of LLVM IR text by name."""
    return {match[1]: match[0] for match in _FUNCTION.finditer(ir)}


def open_masked_stores(ir: str) -> list[str]:
    """Masked stores whose value LLVM can look through to a truncation, or whose mask is known to
    have one lane on."""
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
    """Whether a value is a fence's, but for casts and orders of lanes."""
    text = definitions.get(value, "")
    while text.startswith(("bitcast", "shufflevector")):
        operand = re.search(r"%\S+?(?=,| |$)", text)
        text = "" if operand is None else definitions.get(operand[0], "")
    return "@llvm.arithmetic.fence." in text


@dataclass
class _Written:
    """What a function stores by its IR, in bytes."""

    whole: Counter[int] = field(default_factory=Counter)
    lanes: set[int] = field(default_factory=set)

    def explains(self, width: int) -> bool:
        """Whether some store of the IR may store `width` bytes of a register.

        Neighbouring small stores become one, and vectors of odd sizes are stored in parts.
        """
        if width in self.lanes or width in self.whole:
            return True
        small = sum(n for size, n in self.whole.items() if size < width)
        parts = (size for size in self.whole if size > width and size % 16)
        return small > 1 or any(size & width for size in parts)


def wide_lane_stores(ir: str, assembly: str) -> list[str]:
    """Instructions of x86 assembly in AT&T syntax that store a part of a vector register to
    memory that no store of the IR explains; those to the stack are spills."""
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
