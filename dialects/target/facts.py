"""Parsing and printing of target attributes: named facts, strings before integers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

TARGET_ATTRIBUTE = "tcopt.target"
"""Name of the module attribute that holds the target."""

ACCELERATOR_ATTRIBUTE = "tcopt.accelerator"
"""Name of the module attribute that holds the accelerator attached to the target."""

Facts = dict[str, str | int]


def parse_facts(
    parser: AttrParser,
    texts: Sequence[str],
    numbers: Sequence[str],
    defaults: Mapping[str, str | int],
) -> list[Attribute]:
    """Parse `<a = "text", b = 1>` into parameters: strings first, then integers."""
    values: Facts = dict(defaults)

    def parse_field() -> None:
        position = parser.pos
        name = parser.parse_identifier()
        parser.parse_punctuation("=")
        if name in texts:
            values[name] = parser.parse_str_literal()
        elif name in numbers:
            values[name] = parser.parse_integer(allow_boolean=False)
        else:
            known = ", ".join((*texts, *numbers))
            parser.raise_error(f"unknown field {name}, expected one of {known}", position)

    parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
    missing = [name for name in (*texts, *numbers) if name not in values]
    if missing:
        parser.raise_error(f"missing field {', '.join(missing)}")
    return [
        *(StringAttr(str(values[name])) for name in texts),
        *(IntAttr(int(values[name])) for name in numbers),
    ]


def print_facts(printer: Printer, facts: Facts) -> None:
    """Print `<a = "text", b = 1>`."""
    with printer.in_angle_brackets():
        for number, (name, value) in enumerate(facts.items()):
            printer.print_string(f"{', ' if number else ''}{name} = ")
            if isinstance(value, str):
                printer.print_string_literal(value)
            else:
                printer.print_int(value)


def facts_of(attribute: Attribute, texts: Sequence[str], numbers: Sequence[str]) -> Facts:
    """Return the values of an attribute's parameters by name."""
    return {name: getattr(attribute, name).data for name in (*texts, *numbers)}


def defaults_of(record: type[Any], required: Collection[str]) -> dict[str, int]:
    """Return the defaults of a dataclass of numbers, except for those that texts have to state."""
    found = {each.name: each.default for each in fields(record) if each.name not in required}
    return cast("dict[str, int]", found)


def check_least(attribute: Attribute, **least: int) -> None:
    """Raise VerifyException if a parameter is below its lower bound."""
    for name, bound in least.items():
        number: IntAttr = getattr(attribute, name)
        if number.data < bound:
            raise VerifyException(f"{name} = {number.data} should be at least {bound}")
