"""Number literals whose type stands elsewhere in the text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
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
from xdsl.utils.hints import isa

Integers: TypeAlias = DenseArrayBase[IntegerType]
"""A list of numbers as an attribute."""

INTEGERS = DenseArrayBase.constr(i64)
"""Constraint of properties that list numbers."""


def integers(attr: Integers) -> tuple[int, ...]:
    """The numbers that an attribute lists."""
    return _numbers(attr.data.data, attr.elt_type.width.data)


@lru_cache(maxsize=4096)
def number_list(*numbers: int) -> Integers:
    """An attribute that lists numbers."""
    return DenseArrayBase.from_list(i64, numbers)


@lru_cache(maxsize=1024)
def segment_sizes(*sizes: int) -> Integers:
    """The property of an op that says how many operands each group has."""
    return DenseArrayBase.from_list(i32, sizes)


@lru_cache(maxsize=4096)
def _numbers(data: bytes, bits: int) -> tuple[int, ...]:
    return DenseArrayBase(IntegerType(bits), BytesAttr(data)).get_values()


def number_attr(value: float | int, type: Attribute) -> IntegerAttr | FloatAttr:
    """A typed attribute for a number literal."""
    if isa(type, IndexType) or isa(type, IntegerType):
        return IntegerAttr(int(value), type)
    return FloatAttr(float(value), type)  # pyright: ignore


def parse_number(parser: Parser) -> int | float:
    """A number, or `inf`, `-inf`, `nan`."""
    sign = -1 if parser.parse_optional_punctuation("-") else 1
    for keyword in ("inf", "nan"):
        if parser.parse_optional_keyword(keyword):
            return sign * float(keyword)
    return sign * parser.parse_number()


def print_number(printer: Printer, attr: IntegerAttr | FloatAttr) -> None:
    """Print what `parse_number` reads: a number without its type."""
    value = attr.value.data
    if isinstance(attr, IntegerAttr) or not math.isfinite(value):
        printer.print_string(str(value))
    else:
        printer.print_float(value, attr.type)  # pyright: ignore


def parse_rows(parser: Parser, keyword: str) -> list[list[int]]:
    """Lists of integers behind a keyword, `by [0, 1] [1, 0]`; none without the keyword."""
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
    """Print what `parse_rows` reads."""
    if rows:
        printer.print_string(f" {keyword} " + " ".join(str(list(row)) for row in rows))
