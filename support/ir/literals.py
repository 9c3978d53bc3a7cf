"""Number literals whose type is elsewhere in the text."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.support.memo import memo

Integers: TypeAlias = DenseArrayBase[IntegerType]
"""Attribute for a list of integers."""

INTEGERS = DenseArrayBase.constr(i64)
"""Constraint of properties that are lists of integers."""


def integers(attr: Integers) -> tuple[int, ...]:
    """Return the integers of a list attribute."""
    return _numbers(attr.data.data, attr.elt_type.width.data)


_DOUBLE = struct.Struct("<d")
_NAN = _DOUBLE.pack(math.nan)


@memo(4096)
def number_list(*numbers: int) -> Integers:
    """Return an attribute for a list of integers."""
    return DenseArrayBase.from_list(i64, numbers)


@memo(1024)
def segment_sizes(*sizes: int) -> Integers:
    """Return the property with the sizes of an op's operand groups."""
    return DenseArrayBase.from_list(i32, sizes)


@memo(4096)
def _numbers(data: bytes, bits: int) -> tuple[int, ...]:
    return DenseArrayBase(IntegerType(bits), BytesAttr(data)).get_values()


def number_attr(value: float | int, type: Attribute) -> IntegerAttr | FloatAttr:
    """Return the typed attribute of a number literal.

    Raises:
        VerifyException: the type cannot represent the number.
    """
    if isa(type, IndexType) or isa(type, IntegerType):
        if not math.isfinite(value) or value != int(value):
            raise VerifyException(f"{value} is not a value of type {type}")
        return IntegerAttr(int(value), type)
    if not isinstance(type, AnyFloat):
        raise VerifyException(f"there are no number literals of type {type}")
    return FloatAttr(float(value), type)


def parse_number(parser: Parser) -> int | float:
    """Parse a number, `inf`, `-inf` or `nan`; `nan(0x7FF8000000000001)` gives the bits of a NaN."""
    negative = parser.parse_optional_punctuation("-") is not None
    if parser.parse_optional_keyword("inf"):
        return -math.inf if negative else math.inf
    if parser.parse_optional_keyword("nan"):
        if parser.parse_optional_punctuation("("):
            bits = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(")")
            return _DOUBLE.unpack(bits.to_bytes(8, "little"))[0]
        return math.copysign(math.nan, -1 if negative else 1)
    number = parser.parse_number()
    return -number if negative else number


def print_number(printer: Printer, attr: IntegerAttr | FloatAttr) -> None:
    """Print a number without its type, in the form that `parse_number` reads."""
    if isinstance(attr, IntegerAttr):
        printer.print_string(str(attr.value.data))
    elif _is_printed_in_digits(attr.value.data, attr.type):
        printer.print_float(attr.value.data, attr.type)
    else:
        printer.print_string(float_text(attr.value.data))


def float_text(value: float) -> str:
    """Return the text from which `parse_number` reads exactly this 64-bit float."""
    if math.isnan(value):
        return "nan" if _DOUBLE.pack(value) == _NAN else f"nan(0x{_bits(value):X})"
    text = repr(value)
    if "." in text or "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return f"{mantissa}.0e{exponent}"


def _is_printed_in_digits(value: float, type: Attribute) -> bool:
    """Whether xDSL prints a float in decimals that parse exactly without its type."""
    if not math.isfinite(value):
        return False
    if float(f"{value:.5e}") == value:
        return True
    if isinstance(type, Float32Type | Float64Type):
        return "." in f"{value:.{9 if isinstance(type, Float32Type) else 17}g}"
    return "." in repr(value)


def _bits(value: float) -> int:
    return int.from_bytes(_DOUBLE.pack(value), "little")


def parse_rows(parser: Parser, keyword: str) -> list[list[int]]:
    """Parse lists of integers after a keyword, `by [0, 1] [1, 0]`; empty without the keyword."""
    rows: list[list[int]] = []
    if parser.parse_optional_keyword(keyword):
        square = parser.Delimiter.SQUARE
        rows.append(parser.parse_comma_separated_list(square, lambda: _integer(parser)))
        while row := parser.parse_optional_comma_separated_list(square, lambda: _integer(parser)):
            rows.append(row)
    return rows


def _integer(parser: Parser) -> int:
    return parser.parse_integer(allow_boolean=False)


def print_rows(printer: Printer, keyword: str, rows: Sequence[Sequence[int]]) -> None:
    """Print the form that `parse_rows` reads."""
    if rows:
        printer.print_string(f" {keyword} " + " ".join(str(list(row)) for row in rows))
