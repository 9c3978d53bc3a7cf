"""Writer of the LLVM IR text of one function, as needed by the plain translation of the loop
dialect.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.hints import isa

from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.errors import UnsupportedError

_FLOATS: dict[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
}


BYTES = {"i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}
"""Size of an element in memory."""


def element_text(type_: Attribute) -> str:
    """Return the LLVM type of a scalar as a value.

    Raises:
        UnsupportedError: the type has none.
    """
    if isinstance(type_, IndexType):
        return "i64"
    if isinstance(type_, IntegerType):
        return f"i{type_.width.data}"
    text = _FLOATS.get(type(type_))
    if text is None:
        # Narrow floats are stored as codes in bytes.
        if numpy_dtype(type_).itemsize == 1:
            return "i8"
        raise UnsupportedError(f"the plain translation does not support {type_}")
    return text


def memory_text(type_: Attribute) -> str:
    """Return the LLVM type of an element in memory: booleans and narrow integers are bytes."""
    text = element_text(type_)
    return "i8" if text in ("i1", "i2", "i4") else text


def type_text(type_: Attribute) -> str:
    """Return the LLVM type of a value; vectors of several dimensions are flat, row-major."""
    if isa(type_, VectorType):
        return f"<{type_.element_count()} x {element_text(type_.get_element_type())}>"
    return element_text(type_)


def lanes_of(type_: Attribute) -> int:
    """Return the number of elements of a value: 1 for a scalar."""
    return type_.element_count() if isa(type_, VectorType) else 1


def is_float_text(text: str) -> bool:
    """Whether a scalar LLVM type is a float."""
    return text in _FLOATS.values()


def float_text(value: float, type_: str) -> str:
    """Return an exact float constant of a type."""
    if type_ == "half":
        return f"0xH{int.from_bytes(struct.pack('>e', value), 'big'):04X}"
    if type_ == "bfloat":
        return f"0xR{int.from_bytes(struct.pack('>f', value), 'big') >> 16:04X}"
    if type_ == "float":
        value = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{int.from_bytes(struct.pack('>d', value), 'big'):016X}"


def number_text(attr: Attribute) -> str:
    """Return a constant attribute as an LLVM operand."""
    if isinstance(attr, IntegerAttr):
        value = attr.value.data
        if attr.type == IntegerType(1):
            return str(value & 1)
        return str(value)
    if isinstance(attr, FloatAttr):
        text = element_text(attr.type)
        if not is_float_text(text):
            raise UnsupportedError(
                f"the plain translation does not support constants of {attr.type}"
            )
        return float_text(attr.value.data, text)
    raise UnsupportedError(f"the plain translation does not support the constant {attr}")


class PlainWriter:
    """Writer of the lines of one function; values are texts such as `%v3`, or constants."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        """`declare` lines of called functions, by name."""
        self.externals: set[str] = set()
        """Names of the called C functions."""
        self.tables: dict[str, str] = {}
        """Names of constant arrays, by their definitions."""
        self.locals: list[str] = []
        """Definitions of stack memory, at the start of the function."""
        self.meanings: dict[str, Operation] = {}
        """Third-party ops, by the names of the functions that compute them."""
        self.block = "entry"
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def assign(self, text: str) -> str:
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def start(self, label: str) -> None:
        """Start a new basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    @contextmanager
    def loop(self, count: str) -> Iterator[str]:
        """Emit a loop from 0 to `count`, an i64; yields the counter."""
        head, body, done = self.label(), self.label(), self.label()
        before = self.block
        self.line(f"br label %{head}")
        self.start(head)
        position = len(self.lines)
        self.lines.append("")
        counter = self.assign("add i64 0, 0")
        self.lines.pop()
        again = self.assign(f"icmp slt i64 {counter}, {count}")
        self.line(f"br i1 {again}, label %{body}, label %{done}")
        self.start(body)
        yield counter
        following = self.assign(f"add i64 {counter}, 1")
        latch = self.block
        self.line(f"br label %{head}")
        self.lines[position] = f"  {counter} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]"
        self.start(done)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Emit code that runs only if an i1 holds."""
        body, done = self.label(), self.label()
        self.line(f"br i1 {condition}, label %{body}, label %{done}")
        self.start(body)
        yield
        self.line(f"br label %{done}")
        self.start(done)

    def choose(self, condition: str, type_: str, value: Callable[[], str], default: str) -> str:
        """Return `value()` if an i1 holds, otherwise `default`; `value()` is only evaluated in that
        case.
        """
        before = self.block
        body, done = self.label(), self.label()
        self.line(f"br i1 {condition}, label %{body}, label %{done}")
        self.start(body)
        result = value()
        end = self.block
        self.line(f"br label %{done}")
        self.start(done)
        return self.assign(f"phi {type_} [ {result}, %{end} ], [ {default}, %{before} ]")

    def all_of(self, conditions: Sequence[str]) -> str:
        """Return the conjunction of i1 values."""
        if not conditions:
            return "true"
        result = conditions[0]
        for other in conditions[1:]:
            result = self.assign(f"and i1 {result}, {other}")
        return result

    def call(self, name: str, result: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Call a function or intrinsic with `(type, value)` arguments."""
        types = ", ".join(type_ for type_, _ in arguments)
        self.declarations[name] = f"declare {result} @{name}({types})"
        if not name.startswith("llvm."):
            self.externals.add(name)
        values = ", ".join(f"{type_} {value}" for type_, value in arguments)
        return self.assign(f"call {result} @{name}({values})")

    def local(self, size: int) -> str:
        """Return the address of `size` bytes of stack memory."""
        name = f"%local{len(self.locals)}"
        self.locals.append(f"  {name} = alloca [{size} x i8], align 16")
        return name

    def call_meaning(self, op: Operation, block: str) -> None:
        """Call the function that computes an op on the values at an address."""
        name = f"meaning{len(self.meanings)}"
        self.meanings[name] = op
        self.declarations[name] = f"declare void @{name}(ptr)"
        self.line(f"call void @{name}(ptr {block})")

    def table(self, entries: Sequence[str], type_: str) -> str:
        """Return the address of a constant array."""
        values = ", ".join(f"{type_} {entry}" for entry in entries)
        text = f"private constant [{len(entries)} x {type_}] [{values}]"
        return self.tables.setdefault(text, f"@table{len(self.tables)}")

    def lanes(self, vector: str, type_: str, count: int) -> list[str]:
        """Return the elements of a flat vector."""
        return [
            self.assign(f"extractelement <{count} x {type_}> {vector}, i64 {lane}")
            for lane in range(count)
        ]

    def gather(self, elements: Sequence[str], type_: str) -> str:
        """Return a flat vector of elements."""
        vector, count = "poison", len(elements)
        for lane, element in enumerate(elements):
            vector = self.assign(
                f"insertelement <{count} x {type_}> {vector}, {type_} {element}, i64 {lane}"
            )
        return vector

    def splat(self, element: str, type_: str, count: int) -> str:
        """Return a flat vector of equal elements."""
        first = self.assign(f"insertelement <{count} x {type_}> poison, {type_} {element}, i64 0")
        zero = f"<{count} x i32> zeroinitializer"
        return self.assign(
            f"shufflevector <{count} x {type_}> {first}, <{count} x {type_}> poison, {zero}"
        )
