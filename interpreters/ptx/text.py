"""Parser of PTX modules: kernels, functions, variables and instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tcopt.support.errors import ParsingError

Operand = str | tuple[str, ...]
"""Register, immediate, symbol or `[address]`; a tuple for a vector in braces."""


@dataclass(frozen=True)
class PtxInstruction:
    """PTX instruction.

    Attributes:
        line: first line of the instruction in the module's text, counted from 1.
        opcode: the part before the first dot: `ld` of `ld.global.nc.b32`.
        modifiers: the other parts, in order.
        guard: predicate register of a guard such as `@%p1`; None without a guard.
        negated: whether the guard is negated, as in `@!%p1`.
    """

    line: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str | None = None
    negated: bool = False

    @property
    def name(self) -> str:
        """Opcode with all modifiers."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def type(self) -> str:
        """Last modifier, which is the type in most instructions."""
        return self.modifiers[-1] if self.modifiers else ""

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def scalar(self, number: int) -> str:
        """Return an operand that must not be a vector."""
        found = self.operands[number] if number < len(self.operands) else None
        if not isinstance(found, str):
            raise ParsingError(f"{self.name} has no scalar operand {number}", where=str(self.line))
        return found

    @property
    def texts(self) -> tuple[str, ...]:
        """Guard and operands as a flat sequence, with vectors expanded."""
        guard = () if self.guard is None else (self.guard,)
        parts = ((each,) if isinstance(each, str) else each for each in self.operands)
        return (*guard, *(text for part in parts for text in part))

    def vector(self, number: int) -> tuple[str, ...]:
        """Return an operand as a vector; a scalar becomes a vector of one element."""
        if number >= len(self.operands):
            raise ParsingError(f"{self.name} has no operand {number}", where=str(self.line))
        found = self.operands[number]
        return (found,) if isinstance(found, str) else found


@dataclass(frozen=True)
class Label:
    """Label, the target of branches."""

    name: str


@dataclass(frozen=True)
class PtxVariable:
    """Array in the shared or local memory of a kernel, or in global or constant memory.

    Attributes:
        values: initial values of the first elements; the others are 0.
    """

    name: str
    space: str
    alignment: int
    element_bytes: int
    count: int
    values: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.element_bytes * self.count


@dataclass
class PtxKernel:
    """Kernel (`.entry`), or a device function (`.func`).

    Attributes:
        parameters: sizes of parameters in bytes, by name.
        threads: exact size of a block (`.reqntid`); None if it is not declared.
        results: sizes of a function's results in bytes, by name.
        registers: type of each register, or of all registers with a prefix: `%r<20>` is declared
            as `%r`. Includes the parameters and results of functions, and the `.param` variables
            of calls.
    """

    name: str
    line: int
    parameters: dict[str, int]
    threads: tuple[int, int, int] | None = None
    results: dict[str, int] = field(default_factory=dict[str, int])
    registers: dict[str, str] = field(default_factory=dict[str, str])
    variables: list[PtxVariable] = field(default_factory=list[PtxVariable])
    body: list[PtxInstruction | Label] = field(default_factory=list[PtxInstruction | Label])


@dataclass
class PtxModule:
    """PTX module: kernels and functions by name, and module-level variables."""

    target: str
    kernels: dict[str, PtxKernel]
    functions: dict[str, PtxKernel]
    variables: list[PtxVariable]


_NAME = r"[%$\w]+"
NAME = re.compile(_NAME)
_ENTRY = re.compile(
    rf"(?:\.(?:visible|weak|extern)\s+)?\.(entry|func)\s*(?:\(([^)]*)\))?\s*({_NAME})\s*\(([^)]*)\)([^;{{]*)(;|\{{)"
)
_PARAMETER = re.compile(rf"\.param\s+\.\w?(\d+)\b.*?({_NAME})\s*$", re.DOTALL)
_THREADS = re.compile(r"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_VARIABLE = re.compile(
    rf"\.(shared|local|global|const)\s+(?:\.align\s+(\d+)\s+)?\.\w(\d+)\s+({_NAME})"
    r"(?:\[(\d*)\])?(?:\s*=\s*\{([^}]*)\}|\s*=\s*(\w+))?$"
)
_LABEL = re.compile(rf"({_NAME}):")
_REGISTER = re.compile(rf"({_NAME})(?:<(\d+)>)?")
_STATEMENT = re.compile(rf"\s*({_NAME}:|[{{}}]|[^;{{}}\s](?:[^;])*;)")
_CALL = re.compile(rf"(?:\(([^)]*)\)\s*,\s*)?({_NAME})\s*(?:,\s*\(([^)]*)\))?")
_GUARD = re.compile(rf"@(!?)({_NAME})\s+")
_OPERAND = re.compile(r"\{([^}]*)\}|\[[^\]]*\]|[^,{}\[\]]+")
_IGNORED = (".pragma", ".section")
_DIRECTIVES = re.compile(r"\.(?:version|target|address_size)\b[^\n]*")
_BLANK = re.compile(r"//[^\n]*|/\*.*?\*/|^\s*\.(?:loc|file)\b[^\n]*", re.DOTALL | re.MULTILINE)
"""Comments, and debug directives that end at the end of the line."""


def parse_ptx(text: str) -> PtxModule:
    """Parse a module.

    Raises:
        ParsingError: the text is not PTX, or not in the form that compilers write.
    """
    text = _without_comments(text)
    found = re.search(r"\.target\s+(\w+)", text)
    if found is None:
        raise ParsingError("a PTX module names its .target")
    module = PtxModule(found[1], {}, {}, [])
    outside = text
    for entry in _ENTRY.finditer(text):
        end = entry.end()
        if entry[6] == "{":
            end = _closing_brace(text, end - 1)
            table = module.kernels if entry[1] == "entry" else module.functions
            table[entry[3]] = _kernel(text, entry, end)
        outside = outside[: entry.start()] + " " * (end - entry.start()) + outside[end:]
    for _, statement in _statements(_DIRECTIVES.sub("", outside), 0):
        place = re.search(r"\.(?:global|const|shared)\b", statement)
        if place is not None:
            module.variables.append(_variable(statement[place.start() :]))
    return module


def _without_comments(text: str) -> str:
    """Replace comments by blanks, keeping line numbers."""

    def blank(comment: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", comment[0])

    return _BLANK.sub(blank, text)


def _closing_brace(text: str, begin: int) -> int:
    depth = 0
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return begin + brace.start()
    raise ParsingError("a PTX function has no end", where=f"line {_line(text, begin)}")


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _kernel(text: str, entry: re.Match[str], end: int) -> PtxKernel:
    _, results, name, parameters, directives, _ = entry.groups()
    kernel = PtxKernel(name, _line(text, entry.start()), _parameters(parameters, name))
    sizes = _THREADS.search(directives)
    if sizes is not None:
        x, y, z = (int(size or 1) for size in sizes.groups())
        kernel.threads = x, y, z
    body = _Body(kernel)
    if entry[1] == "func":
        kernel.results = _parameters(results or "", name)
        for each, size in (*kernel.parameters.items(), *kernel.results.items()):
            body.declare_parameter(each, f"b{8 * size}")
    first = _line(text, entry.end())
    for line, statement in _statements(text[entry.end() : end], first - 1):
        body.add(line, statement)
    return kernel


def _parameters(text: str, where: str) -> dict[str, int]:
    """Return the size in bytes of each parameter in a parameter list."""
    parameters: dict[str, int] = {}
    for declared in filter(None, map(str.strip, text.split(","))):
        found = _PARAMETER.search(declared)
        if found is None:
            raise ParsingError(f"{declared!r} is not a parameter", where=where)
        parameters[found[2]] = int(found[1]) // 8
    return parameters


def _statements(text: str, before: int) -> Iterator[tuple[int, str]]:
    """Yield statements with their lines: labels, scope braces, and text up to a semicolon."""
    place, line = 0, before + 1
    while found := _STATEMENT.match(text, place):
        line += text.count("\n", place, found.start(1))
        yield line, " ".join(found[1].removesuffix(";").split())
        line += found[1].count("\n")
        place = found.end()
    rest = text[place:].strip()
    if rest:
        raise ParsingError(f"{rest.splitlines()[0]!r} has no end", where=f"line {line}")


class _Body:
    """Parser of a kernel's body, which adds statements to the kernel.

    Registers declared in a nested scope get unique names. `.param` variables of calls become
    registers.
    """

    def __init__(self, kernel: PtxKernel):
        self._kernel = kernel
        self._scopes: list[dict[str, str]] = [{}]
        self._count = 0
        self._parameters: set[str] = set()

    def declare_parameter(self, name: str, type_: str) -> None:
        """Declare a register for a parameter or result."""
        self._parameters.add(self._declare(name, type_))

    def _declare(self, name: str, type_: str) -> str:
        """Declare a register under a unique name, and return the name."""
        own = f"%{name.lstrip('%')}"
        if len(self._scopes) > 1:
            own = f"%scope{self._count}_{own[1:]}"
        self._scopes[-1][name] = own
        self._kernel.registers[own] = type_
        return own

    def add(self, line: int, statement: str) -> None:
        label = _LABEL.fullmatch(statement)
        if label is not None:
            self._kernel.body.append(Label(label[1]))
        elif statement == "{":
            self._count += 1
            self._scopes.append({})
        elif statement == "}":
            self._scopes.pop()
        elif statement.startswith(".reg"):
            self._registers(statement)
        elif statement.startswith(".param"):
            found = _PARAMETER.search(statement)
            if found is None:
                raise ParsingError(f"{statement!r} is not supported", where=f"line {line}")
            self.declare_parameter(found[2], f"b{found[1]}")
        elif statement.startswith((".shared", ".local")):
            self._kernel.variables.append(_variable(statement))
        elif not statement.startswith("."):
            self._instruction(line, statement)
        elif not statement.startswith(_IGNORED):
            raise ParsingError(f"{statement!r} is not supported", where=f"line {line}")

    def _registers(self, statement: str) -> None:
        _, type_, names = statement.split(maxsplit=2)
        for found in _REGISTER.finditer(names):
            if len(self._scopes) == 1:
                self._kernel.registers[found[1]] = type_[1:]
                continue
            numbers = [""] if found[2] is None else map(str, range(int(found[2])))
            for number in numbers:
                self._declare(found[1] + number, type_[1:])

    def _instruction(self, line: int, statement: str) -> None:
        names = {old: new for scope in self._scopes for old, new in scope.items()}
        if names:
            statement = NAME.sub(lambda name: names.get(name[0], name[0]), statement)
        each = _instruction(line, statement)
        if each.opcode in ("ld", "st") and each.has("param"):
            address = each.scalar(1 if each.opcode == "ld" else 0).strip("[] ")
            name = address.removesuffix("+0")
            if name in self._parameters:
                moved = (each.scalar(0), name) if each.opcode == "ld" else (name, each.scalar(1))
                each = replace(each, opcode="mov", modifiers=(each.type,), operands=moved)
        self._kernel.body.append(each)


def _variable(statement: str) -> PtxVariable:
    found = _VARIABLE.match(statement)
    if found is None:
        raise ParsingError(f"{statement!r} is not a variable")
    space, alignment, bits, name, count, values, value = found.groups()
    given = [int(each, 0) for each in (values or value or "").split(",") if each.strip()]
    size = int(bits) // 8
    # An array without a size is the dynamic shared memory of a launch.
    number = 0 if count == "" else int(count or 1)
    return PtxVariable(name, space, int(alignment or size), size, number, tuple(given))


def _instruction(line: int, statement: str) -> PtxInstruction:
    guard = _GUARD.match(statement)
    rest = statement if guard is None else statement[guard.end() :]
    name, _, operands = rest.partition(" ")
    opcode, *modifiers = name.split(".")
    found: list[Operand] = []
    if opcode == "call":
        found += _called(line, operands)
        operands = ""
    for operand in _OPERAND.finditer(operands):
        if operand[1] is not None:
            found.append(tuple(part.strip() for part in operand[1].split(",")))
        elif operand[0].strip():
            found.append(operand[0].strip())
    parts = (tuple(modifiers), tuple(found))
    if guard is None:
        return PtxInstruction(line, opcode, *parts)
    return PtxInstruction(line, opcode, *parts, guard[2], bool(guard[1]))


def _called(line: int, operands: str) -> list[Operand]:
    """Parse the operands of a call: results, function name and arguments."""
    found = _CALL.fullmatch(operands.strip())
    if found is None:
        raise ParsingError(f"a call of {operands!r} is not supported", where=f"line {line}")
    results, arguments = (
        tuple(filter(None, map(str.strip, (found[number] or "").split(",")))) for number in (1, 3)
    )
    return [results, found[2], arguments]
