"""Emission of one kernel as OpenCL C.

A value with a single use, in the block that defines it, becomes part of the expression that uses
it; other values become variables, named as in the IR. Loads always become variables, so that they
stay at their position in the IR.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from tcopt.backends.opencl.emit.names import taken_names, variable
from tcopt.backends.opencl.emit.registry import write_rules
from tcopt.backends.opencl.emit.types import (
    is_mask,
    lanes,
    mask_type,
    memory_type,
    value_type,
    without_bf16,
    without_half,
)
from tcopt.backends.strides import known_strides
from tcopt.support.errors import UnsupportedError

_INDENT = "  "

_DEFAULT_NAMES = {"int": "i", "bool": "inside"}
"""Names of values without a name hint, by type."""


@dataclass(frozen=True)
class Text:
    """A C expression.

    Attributes:
        level: the precedence of its outermost operator, as in `PRECEDENCE`.
    """

    text: str
    level: int = 100


PRECEDENCE = {
    "?": 1,
    "||": 2,
    "&&": 3,
    "|": 4,
    "^": 5,
    "&": 6,
    "==": 7,
    "!=": 7,
    "<": 8,
    ">": 8,
    "<=": 8,
    ">=": 8,
    "<<": 9,
    ">>": 9,
    "+": 10,
    "-": 10,
    "*": 11,
    "/": 11,
    "%": 11,
    "unary": 12,
}
"""Precedence of C's operators; higher values bind more tightly."""


@dataclass
class Helpers:
    """Functions that the kernels of a source file call, by name."""

    functions: dict[str, str] = field(default_factory=dict[str, str])

    def need(self, name: str, definition: str) -> None:
        self.functions.setdefault(name, definition)


class OpenClWriter:
    """State of the emission of one kernel; passed to the rules.

    Args:
        halves: whether the device supports arithmetic on `half`.
    """

    def __init__(self, helpers: Helpers, halves: bool = False):
        self.helpers = helpers
        self.halves = halves
        self.lines: list[str] = []
        self.depth = 1
        self._texts: dict[SSAValue, Text] = {}
        self._mask_bits: dict[SSAValue, int] = {}
        self._names: set[str] = set(taken_names())
        self._rules = write_rules()

    # Lines

    def line(self, text: str) -> None:
        """Emit one line of code."""
        self.lines.append(_INDENT * self.depth + text)

    @contextmanager
    def braces(self, head: str) -> Generator[None]:
        """Emit `head {`, the code emitted inside, and the closing brace."""
        self.line(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def block(self, block: Block) -> None:
        """Emit the ops of a block."""
        for op in block.ops:
            rule = self._rules.get(op.name)
            if rule is None:
                raise UnsupportedError(f"'{op.name}' has no form in OpenCL C", op=op)
            rule(self, op)

    # Types

    def computed(self, type: Attribute) -> Attribute:
        """Return the type in which values of a type are computed."""
        type = without_bf16(type)
        return type if self.halves else without_half(type)

    def value_type(self, type: Attribute) -> str:
        """Return the C type of a value: `vector<4xf32>` is `float4`."""
        return value_type(self.computed(type))

    def type_of(self, value: SSAValue) -> str:
        """Return the C type of a value; masks are as wide as the compared elements."""
        if is_mask(value.type):
            return mask_type(self._mask_bits.get(value, 32), lanes(value.type))
        return self.value_type(value.type)

    def mask(self, value: SSAValue, bits: int, level: int = 0) -> str:
        """Return a mask with elements of `bits` bits, converting it if needed."""
        if self._mask_bits.get(value, 32) == bits:
            return self.text(value, level)
        return f"convert_{mask_type(bits, lanes(value.type))}({self.text(value)})"

    def mask_bits(self, value: SSAValue) -> int:
        """Return the element width of a mask."""
        return self._mask_bits.get(value, 32)

    # Values

    def name(self, value: SSAValue, default: str = "v") -> str:
        """Return a new name for a value."""
        return self.fresh(variable(value.name_hint or default, default))

    def fresh(self, hint: str) -> str:
        """Return an unused name."""
        name, number = hint, 1
        while name in self._names:
            name, number = f"{hint}_{number}", number + 1
        self._names.add(name)
        return name

    def declare(self, value: SSAValue, default: str = "v") -> str:
        """Declare a variable that is assigned later."""
        name = self.name(value, default)
        self.line(f"{self.type_of(value)} {name};")
        self.define(value, name)
        return name

    def define(self, value: SSAValue, text: str | Text) -> None:
        """Bind a value to an expression, which may be emitted several times."""
        self._texts[value] = Text(text) if isinstance(text, str) else text

    def assign(self, value: SSAValue, text: str, default: str = "v") -> None:
        """Assign a value to a new variable."""
        name = self.name(value, default)
        self.line(f"const {self.type_of(value)} {name} = {text};")
        self.define(value, name)

    def pure(self, op: Operation, text: str | Text, bits: int = 32) -> None:
        """Bind the result of an op without effects, to an expression or a variable.

        Args:
            bits: the element width, if the result is a mask.
        """
        (result,) = op.results
        if is_mask(result.type):
            self._mask_bits[result] = bits
        made = Text(text) if isinstance(text, str) else text
        uses = list(result.uses)
        is_short = re.fullmatch(r"\w+ [+-] \d+", made.text) is not None
        is_inline = len(uses) == 1 and uses[0].operation.parent is op.parent
        if uses and (is_short or (is_inline and len(made.text) < 100)):
            self.define(result, made)
        elif uses:
            self.assign(result, made.text, default=_DEFAULT_NAMES.get(self.type_of(result), "v"))

    def text(self, value: SSAValue, level: int = 0) -> str:
        """Return the expression of a value, in parentheses if its precedence is below `level`."""
        known = self._texts.get(value)
        if known is None:
            raise UnsupportedError(f"a value of type {value.type} is used before it is defined")
        return known.text if known.level >= level else f"({known.text})"

    def texts(self, values: Iterable[SSAValue]) -> list[str]:
        """Return the expressions of values."""
        return [self.text(value) for value in values]

    def binary(self, operator: str, lhs: SSAValue, rhs: SSAValue) -> Text:
        """Return `lhs operator rhs`."""
        level = PRECEDENCE[operator]
        if operator == "+" and (right := self.text(rhs)).startswith("-") and right[1:].isdigit():
            return Text(f"{self.text(lhs, level)} - {right[1:]}", level)
        return Text(f"{self.text(lhs, level)} {operator} {self.text(rhs, level + 1)}", level)

    def call(self, function: str, values: Iterable[SSAValue]) -> str:
        """Return `function(values)`."""
        return f"{function}({', '.join(self.texts(values))})"

    # Memory

    def element(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        """Return `buffer[i * stride + ...]`."""
        return f"{self.text(buffer)}[{self.offset(buffer, indices)}]"

    def address(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        """Return `buffer + i * stride + ...`."""
        offset = self.offset(buffer, indices)
        return self.text(buffer) if offset == "0" else f"{self.text(buffer)} + {offset}"

    def is_packed(self, buffer: SSAValue) -> bool:
        """Whether a buffer holds 16-bit floats that are accessed through conversions only."""
        element = get_element_type_or_self(buffer.type)
        if isinstance(buffer.owner, memref.ReinterpretCastOp):
            buffer = buffer.owner.source
        return self.computed(element) != element and isinstance(buffer, BlockArgument)

    def offset(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> str:
        """Return the linear index of an element."""
        assert isinstance(buffer.type, MemRefType)
        terms: list[str] = []
        constant = 0
        for index, stride in zip(indices, self._strides_of(buffer), strict=True):
            text = self.text(index, PRECEDENCE["+"] if stride == 1 else PRECEDENCE["*"])
            if text.isdigit() and isinstance(stride, int):
                constant += int(text) * stride
            elif text != "0":
                terms.append(text if stride == 1 else f"{text} * {stride}")
        if constant:
            terms.append(str(constant))
        return " + ".join(terms) or "0"

    def _strides_of(self, buffer: SSAValue) -> Sequence[int | str]:
        """Return the strides of a buffer, as numbers or C expressions."""
        assert isinstance(buffer.type, MemRefType)
        known = known_strides(buffer.type)
        if None not in known:
            return [stride for stride in known if stride is not None]
        if not isinstance(buffer.owner, memref.ReinterpretCastOp):
            raise UnsupportedError(f"a buffer of type {buffer.type} has unknown strides")
        values = iter(buffer.owner.strides)
        level = PRECEDENCE["unary"]
        return [
            self.text(next(values), level) if stride == DYNAMIC_INDEX else stride
            for stride in buffer.owner.static_strides.get_values()
        ]

    def parameter(self, value: SSAValue, is_read_only: bool) -> str:
        """Declare an argument of the kernel: a buffer or an index."""
        name = self.name(value, "p")
        self.define(value, name)
        if not isinstance(value.type, MemRefType):
            return f"const {self.value_type(value.type)} {name}"
        const = "const " if is_read_only else ""
        return f"__global {const}{memory_type(value.type)} *restrict {name}"
