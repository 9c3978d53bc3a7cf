"""Textual form of function-like ops: `@f(%x: type) -> type attributes {..} {...}`."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import FunctionType, StringAttr
from xdsl.ir import Attribute, Region
from xdsl.parser import Parser
from xdsl.printer import Printer


def parse_function(
    parser: Parser,
) -> tuple[str, FunctionType, Region, Mapping[str, Attribute]]:
    """Parse the name, signature, attributes and body."""
    name = parser.parse_symbol_name().data
    paren = parser.Delimiter.PAREN
    arguments = parser.parse_comma_separated_list(paren, lambda: _parse_argument(parser))
    results: list[Attribute] = []
    if parser.parse_optional_punctuation("->"):
        many = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        results = [parser.parse_type()] if many is None else list(many)
    attributes = parser.parse_optional_attr_dict_with_keyword()
    body = parser.parse_region(arguments)
    type_ = FunctionType.from_lists([a.type for a in arguments], results)
    return name, type_, body, attributes.data if attributes else {}


def _parse_argument(parser: Parser) -> Parser.Argument:
    argument = parser.parse_argument()
    argument.location = parser.parse_optional_location()
    return argument


def print_function(
    printer: Printer,
    name: StringAttr,
    type: FunctionType,
    body: Region,
    attributes: dict[str, Attribute],
) -> None:
    """Print the form that `parse_function` reads."""
    printer.print_string(" ")
    printer.print_symbol_name(name.data)
    printer.enter_scope()
    with printer.in_parens():
        printer.print_list(body.block.args, printer.print_block_argument)
    outputs = type.outputs.data
    if outputs:
        printer.print_string(" -> ")
        if len(outputs) == 1:
            printer.print_attribute(outputs[0])
        else:
            with printer.in_parens():
                printer.print_list(outputs, printer.print_attribute)
    printer.print_op_attributes(attributes, print_keyword=True)
    printer.print_string(" ")
    printer.print_region(body, print_entry_block_args=False, print_empty_block=False)
    printer.exit_scope()
