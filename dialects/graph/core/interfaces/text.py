"""Printing and parsing of graph ops: operands, properties that differ from defaults, result
types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import BaseAttr, IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer

from tcopt.dialects.graph.core.attributes import UNIT, floats, ints
from tcopt.support.ir.literals import float_text, parse_number


def print_operands(printer: Printer, operands: Sequence[SSAValue]) -> None:
    """Print ` %a, %b`."""
    if operands:
        printer.print_string(" ")
        printer.print_list(operands, printer.print_ssa_value)


def parse_operands(parser: Parser) -> list[SSAValue]:
    """Parse `%a, %b`. Operands must already be defined, because their types are not printed."""
    operands: list[SSAValue] = []
    unresolved = parser.parse_optional_unresolved_operand()
    while unresolved is not None:
        known = parser.ssa_values.get(unresolved.operand_name)
        if known is None or unresolved.index >= len(known):
            parser.raise_error("value is used before its definition", unresolved.span)
        operands.append(known[unresolved.index])
        if parser.parse_optional_punctuation(",") is None:
            break
        unresolved = parser.parse_unresolved_operand()
    return operands


# Plain classes, because `isa` on generic ones is a thousand times slower.
_ARRAY: type[Any] = DenseArrayBase
_FLOAT: type[Any] = FloatAttr
_INTEGER: type[Any] = IntegerAttr


def _print_value(printer: Printer, value: Attribute) -> None:
    text = _short_text(value)
    if text is None:
        printer.print_attribute(value)
    else:
        printer.print_string(text)


def _short_text(value: Any) -> str | None:
    """Return the text of an attribute that can be printed without its type; else None."""
    if isinstance(value, EnumAttribute):
        return str(value.data)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if isinstance(value, _ARRAY) and value.elt_type == i64:
        return str(list(value.get_values()))
    if isinstance(value, _ARRAY) and value.elt_type == f64 and len(value):
        return "[" + ", ".join(map(float_text, value.get_values())) + "]"
    if isinstance(value, _FLOAT) and value.type == f64 and math.isfinite(value.value.data):
        return float_text(value.value.data)
    if isinstance(value, _INTEGER) and value.type == i64:
        return str(value.value.data)
    return None


def print_properties(printer: Printer, op: IRDLOperation, hidden: Sequence[str] = ()) -> None:
    """Print ` {flag, key = value}` for properties that differ from their defaults; nothing if
    empty."""
    definitions = op.get_irdl_definition().properties
    entries = [
        (name, value)
        for name, definition in definitions.items()
        if name not in hidden
        and (value := op.properties.get(name)) is not None
        and definition.default_value != value
    ]
    others = sorted(op.attributes.items())
    if not entries and not others:
        return
    printer.print_string(" {")
    for index, (name, value) in enumerate((*entries, *others)):
        printer.print_string(", " if index else "")
        printer.print_identifier_or_string_literal(name)
        if isinstance(value, UnitAttr):
            continue
        printer.print_string(" = ")
        # Without a definition, the element type of a short list would be unknown when parsing.
        if index < len(entries) or isinstance(value, _INTEGER | _FLOAT):
            _print_value(printer, value)
        else:
            printer.print_attribute(value)
    printer.print_string("}")


def _parse_value(parser: Parser, constraint: Any) -> Attribute:
    if parser.parse_optional_punctuation("=") is None:
        return UNIT
    if isinstance(constraint, BaseAttr):
        base: Any = constraint.attr  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if issubclass(base, EnumAttribute):
            return base(parser.parse_str_enum(base.enum_type))  # pyright: ignore
    if constraint is None or not _is_array(constraint):
        return parser.parse_attribute()
    numbers = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_number(parser)
    )
    if numbers is None:
        return parser.parse_attribute()
    if any(isinstance(number, float) for number in numbers):
        return floats(numbers)
    return ints([int(number) for number in numbers])


def _is_array(constraint: Any) -> bool:
    bases: set[Any] = constraint.get_bases() or set()
    return DenseArrayBase in bases


def parse_properties(
    parser: Parser, op: type[IRDLOperation]
) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """Parse the text form that `print_properties` emits, and return properties and other
    attributes."""
    properties: dict[str, Attribute] = {}
    attributes: dict[str, Attribute] = {}
    definitions = op.get_irdl_definition().properties

    def entry() -> None:
        name = parser.parse_identifier_or_str_literal()
        definition = definitions.get(name)
        target = attributes if definition is None else properties
        if name in target:
            parser.raise_error(f"{name} is given twice")
        target[name] = _parse_value(parser, None if definition is None else definition.constr)

    parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, entry)
    return properties, attributes
