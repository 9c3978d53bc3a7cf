"""The text of a PTX module as kernels, variables and instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tcopt.support.errors import ParsingError

Operand = str | tuple[str, ...]
"""A register, immediate, symbol or `[address]`; a tuple for a vector in braces."""


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        line: its first line in the module's text, counted from 1.
        opcode: the part before the first dot: `ld` of `ld.global.nc.b32`.
        modifiers: the other parts, in order.
        guard: the predicate register of `@%p1`, None without one.
        negated: whether the guard is `@!%p1`.
    """

    line: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str | None = None
    negated: bool = False

    @property
    def name(self) -> str:
        """The opcode with all modifiers."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def type(self) -> str:
        """The last modifier, which is the type of most instructions."""
        return self.modifiers[-1] if self.modifiers else ""

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def scalar(self, number: int) -> str:
        """An operand that is not a vector."""
        found = self.operands[number] if number < len(self.operands) else None
        if not isinstance(found, str):
            raise ParsingError(f"{self.name} has no scalar operand {number}", where=str(self.line))
        return found

    @property
    def texts(self) -> tuple[str, ...]:
        """The guard and all operands, with the elements of vectors one by one."""
        guard = () if self.guard is None else (self.guard,)
        parts = ((each,) if isinstance(each, str) else each for each in self.operands)
        return (*guard, *(text for part in parts for text in part))

    def vector(self, number: int) -> tuple[str, ...]:
        """An operand as a vector; a scalar is one of one element."""
        if number >= len(self.operands):
            raise ParsingError(f"{self.name} has no operand {number}", where=str(self.line))
        found = self.operands[number]
        return (found,) if isinstance(found, str) else found


@dataclass(frozen=True)
class Label:
    """A place to branch to."""

    name: str


@dataclass(frozen=True)
class Variable:
    """An array in the shared or local memory of a kernel, or in global memory.

    Attributes:
        values: initial values of its elements, the rest being 0.
    """

    name: str
    space: str
    alignment: int
    element_bytes: int
    count: int
    values: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Bytes."""
        return self.element_bytes * self.count


@dataclass
class Kernel:
    """An entry point.

    Attributes:
        parameters: their bytes by name.
        threads: the exact size of a block (`.reqntid`), None if the text has none.
        registers: the type of each register, or of all with a prefix: `%r<20>` is under `%r`.
    """

    name: str
    line: int
    parameters: dict[str, int]
    threads: tuple[int, int, int] | None
    registers: dict[str, str] = field(default_factory=dict[str, str])
    variables: list[Variable] = field(default_factory=list[Variable])
    body: list[Instruction | Label] = field(default_factory=list[Instruction | Label])


@dataclass
class PtxModule:
    """Kernels by name, and variables outside of them."""

    target: str
    kernels: dict[str, Kernel]
    variables: list[Variable]


_NAME = r"[%$\w]+"
_ENTRY = re.compile(rf"\.entry\s+({_NAME})\s*\(([^)]*)\)")
_PARAMETER = re.compile(rf"\.param\s+\.\w?(\d+)\b.*?({_NAME})\s*$", re.DOTALL)
_THREADS = re.compile(r"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_VARIABLE = re.compile(
    rf"\.(shared|local|global|const)\s+(?:\.align\s+(\d+)\s+)?\.\w(\d+)\s+({_NAME})"
    r"(?:\[(\d+)\])?(?:\s*=\s*\{([^}]*)\}|\s*=\s*(\w+))?$"
)
_LABEL = re.compile(rf"({_NAME}):")
_REGISTER = re.compile(rf"({_NAME})(?:<\d+>)?")
_GUARD = re.compile(rf"@(!?)({_NAME})\s+")
_OPERAND = re.compile(r"\{([^}]*)\}|\[[^\]]*\]|[^,{}\[\]]+")
_IGNORED = (".loc", ".pragma", ".file", ".section")


def parse_ptx(text: str) -> PtxModule:
    """Parse a module.

    Raises:
        ParsingError: the text is not PTX of the form that compilers write.
    """
    text = _without_comments(text)
    found = re.search(r"\.target\s+(\w+)", text)
    if found is None:
        raise ParsingError("a PTX module names its .target")
    module = PtxModule(found[1], {}, [])
    outside = text
    for entry in _ENTRY.finditer(text):
        begin = text.index("{", entry.end())
        end = _closing_brace(text, begin)
        module.kernels[entry[1]] = _kernel(text, entry, begin, end)
        outside = outside[: entry.start()] + " " * (end - entry.start()) + outside[end:]
    for _, statement in _statements(outside, 0):
        # The first statement follows the module's directives.
        place = re.search(r"\.(?:global|const|shared)\b", statement)
        if place is not None:
            module.variables.append(_variable(statement[place.start() :]))
    return module


def _without_comments(text: str) -> str:
    """The text with comments as blanks, and the same lines."""

    def blank(comment: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", comment[0])

    return re.sub(r"//[^\n]*|/\*.*?\*/", blank, text, flags=re.DOTALL)


def _closing_brace(text: str, begin: int) -> int:
    depth = 0
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return begin + brace.start()
    raise ParsingError("a PTX function has no end", where=f"line {_line(text, begin)}")


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _kernel(text: str, entry: re.Match[str], begin: int, end: int) -> Kernel:
    parameters: dict[str, int] = {}
    for declared in filter(str.strip, entry[2].split(",")):
        found = _PARAMETER.search(declared.strip())
        if found is None:
            raise ParsingError(f"{declared.strip()!r} is not a parameter", where=entry[1])
        parameters[found[2]] = int(found[1]) // 8
    sizes = _THREADS.search(text, entry.end(), begin)
    threads = None if sizes is None else tuple(int(size or 1) for size in sizes.groups())
    kernel = Kernel(entry[1], _line(text, entry.start()), parameters, None)
    if threads is not None:
        kernel.threads = threads[0], threads[1], threads[2]
    first = _line(text, begin)
    for line, statement in _statements(text[begin + 1 : end], first - 1):
        _add(kernel, line, statement)
    return kernel


def _statements(text: str, before: int) -> Iterator[tuple[int, str]]:
    """Statements with their lines: labels, and what ends with a semicolon."""
    for piece in text.split(";")[:-1]:
        rest = piece.lstrip()
        while label := _LABEL.match(rest):
            yield before + 1, label[0]
            rest = rest[label.end() :].lstrip()
        start = before + piece.count("\n", 0, len(piece) - len(rest))
        before += piece.count("\n")
        if rest:
            yield start + 1, " ".join(rest.split())
    last = text[text.rfind(";") + 1 :].strip()
    while label := _LABEL.match(last):
        yield before + 1, label[0]
        last = last[label.end() :].lstrip()


def _add(kernel: Kernel, line: int, statement: str) -> None:
    """Add a statement to a kernel."""
    label = _LABEL.fullmatch(statement)
    if label is not None:
        kernel.body.append(Label(label[1]))
    elif statement.startswith(".reg"):
        _, type_, names = statement.split(maxsplit=2)
        for name in _REGISTER.finditer(names):
            kernel.registers[name[1]] = type_[1:]
    elif statement.startswith((".shared", ".local")):
        kernel.variables.append(_variable(statement))
    elif not statement.startswith("."):
        kernel.body.append(_instruction(line, statement))
    elif not statement.startswith(_IGNORED):
        raise ParsingError(f"{statement!r} is not supported", where=f"line {line}")


def _variable(statement: str) -> Variable:
    found = _VARIABLE.match(statement)
    if found is None:
        raise ParsingError(f"{statement!r} is not a variable")
    space, alignment, bits, name, count, values, value = found.groups()
    given = [int(each, 0) for each in (values or value or "").split(",") if each.strip()]
    size = int(bits) // 8
    return Variable(name, space, int(alignment or size), size, int(count or 1), tuple(given))


def _instruction(line: int, statement: str) -> Instruction:
    guard = _GUARD.match(statement)
    rest = statement if guard is None else statement[guard.end() :]
    name, _, operands = rest.partition(" ")
    opcode, *modifiers = name.split(".")
    found: list[Operand] = []
    for operand in _OPERAND.finditer(operands):
        if operand[1] is not None:
            found.append(tuple(part.strip() for part in operand[1].split(",")))
        elif operand[0].strip():
            found.append(operand[0].strip())
    parts = (tuple(modifiers), tuple(found))
    if guard is None:
        return Instruction(line, opcode, *parts)
    return Instruction(line, opcode, *parts, guard[2], bool(guard[1]))
