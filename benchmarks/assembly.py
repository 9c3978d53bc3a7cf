"""Innermost loops, extracted from LLVM's assembly for x86 and AArch64."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FUNCTION = re.compile(r'^"?([A-Za-z_][^:\s"]*)"?:')
_LABEL = re.compile(r"^(\.L\w+):")
_BRANCH = re.compile(r"^\s+(?:j\w+|b|b\.\w+|cbn?z|tbn?z)\s.*?(\.L\w+)\s*$")
_BRANCHES = re.compile(r"j\w+|b|b\.\w+|cbn?z|tbn?z|ret\w*|call\w*|bl|blr")
_COMMENT = re.compile(r"\s+(?:##?\s|//).*$")
_PRODUCT = re.compile(
    r"v?fn?m(?:add|sub)\d*p[sd]|vpdp\w+|vdpbf16ps|v?pmaddwd|fml[as]|fml[as]lb?|[us]+dot|bfdot"
)
_WIDTHS = {"zmm": 512, "ymm": 256, "xmm": 128}
_VECTOR = re.compile(r"%([xyz]mm)\d+|\bv\d+\.(\d+)([bhsd])\b")
_REGISTER = re.compile(r"%[xyz]mm(\d+)|\b[vqsd](\d+)\b")
_BITS = {"b": 8, "h": 16, "s": 32, "d": 64}


@dataclass(frozen=True)
class Loop:
    """A loop that contains no other loop.

    Attributes:
        lines: instructions of the body, without branches.
    """

    function: str
    lines: tuple[str, ...]

    @property
    def products(self) -> tuple[str, ...]:
        """Return the vector multiply-add instructions."""
        return tuple(line for line in self.lines if _PRODUCT.fullmatch(mnemonic(line)))

    @property
    def product_bits(self) -> int:
        """Return the total width in bits of the accumulators of one iteration."""
        return sum(map(vector_bits, self.products))

    @property
    def carried_bits(self) -> int:
        """Like `sum_bits`, counting only loop-carried accumulators: their registers are written
        first by a multiply-add."""
        bits = 0
        written: set[str] = set()
        for line in self.lines:
            names = _written(line)
            if _PRODUCT.fullmatch(mnemonic(line)) and not written & set(names):
                bits += vector_bits(line)
            else:
                written.update(names)
        return bits

    @property
    def commonest(self) -> str:
        """Return the most frequent multiply-add."""
        (best, _), *_ = Counter(map(mnemonic, self.products)).most_common(1)
        return next(line for line in self.products if mnemonic(line) == best)


def _written(line: str) -> list[str]:
    """Return the vector registers that an instruction writes; includes those that a store reads."""
    found = [first or second for first, second in _REGISTER.findall(line)]
    if "%" in line:
        return found[-1:]
    return found[: 2 if mnemonic(line).startswith("ldp") else 1]


def mnemonic(line: str) -> str:
    """Return an instruction's mnemonic."""
    return line.split(None, 1)[0]


def vector_bits(line: str) -> int:
    """Return the width of the vector that an instruction writes, by its destination register: the
    last on x86 (AT&T syntax), the first on AArch64; 0 if it is not a vector."""
    found = list(_VECTOR.finditer(line))
    if not found:
        return 0
    if found[-1][1]:
        return _WIDTHS[found[-1][1]]
    return int(found[0][2]) * _BITS[found[0][3]]


def innermost_loops(text: str) -> Iterator[Loop]:
    """Yield all innermost loops of an assembly text, in order."""
    for function, lines in _functions(text):
        yield from _loops(function, lines)


def _functions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of each function, with labels and without comments."""
    function, lines = "", list[str]()
    for raw in text.splitlines():
        if (name := _FUNCTION.match(raw)) is not None:
            yield function, lines
            function, lines = name[1], []
        else:
            lines.append(_COMMENT.sub("", raw).rstrip())
    yield function, lines


def _loops(function: str, lines: Sequence[str]) -> Iterator[Loop]:
    """Yield the loops of a function into which no other branch goes back. A branch that exits a
    loop to the head of an outer one may precede the loop's own back edge."""
    places = {label[1]: n for n, line in enumerate(lines) if (label := _LABEL.match(line))}
    ends: dict[int, int] = {}
    for end, line in enumerate(lines):
        branch = _BRANCH.match(line)
        start = places.get(branch[1], end) if branch is not None else end
        if start < end:
            ends[start] = end
    for start, end in sorted(ends.items()):
        if not any(start < other <= end for other in ends):
            body = [line.strip() for line in lines[start:end] if line[:1].isspace()]
            yield Loop(function, tuple(line for line in body if _is_instruction(line)))


def _is_instruction(line: str) -> bool:
    return bool(line) and not line.startswith(".") and not _BRANCHES.fullmatch(mnemonic(line))


def hottest_loops(text: str) -> dict[str, Loop]:
    """Return for each function with one the innermost loop with most loop-carried accumulation; if
    there is none, the loop with most multiply-adds.

    The parallel bodies of a kernel are functions `NAME.body0`; they count as the kernel.
    """
    found: dict[str, Loop] = {}
    best: dict[str, tuple[int, int]] = {}
    for loop in innermost_loops(text):
        name = re.sub(r"\.(?:body|task)\d+$", "", loop.function)
        weight = loop.carried_bits, loop.product_bits
        if loop.product_bits and weight > best.get(name, (0, 0)):
            found[name], best[name] = loop, weight
    return found


def independent_products(line: str, registers: int) -> list[str]:
    """Return a loop with one multiply-add for all registers but two, at a core's peak speed."""
    count = registers - 2
    name, operands = line.split(None, 1)
    if (vector := re.search(r"%([xyz])mm\d+(?!.*%)", operands)) is not None:
        kind = vector[1]
        sources = f"%{kind}mm{count + 1}, %{kind}mm{count}"
        return [f"{name} {sources}, %{kind}mm{each}" for each in range(count)]
    shapes = re.findall(r"v\d+\.(\d*[bhsd])", operands)
    first, second = (re.sub(r"^\d*", "", s) for s in shapes[:2])
    bits = vector_bits(line)
    wide, narrow = f"{bits // _BITS[first]}{first}", f"{bits // _BITS[second]}{second}"
    sources = f"v{count}.{narrow}, v{count + 1}.{narrow}"
    return [f"{name} v{each}.{wide}, {sources}" for each in range(count)]
