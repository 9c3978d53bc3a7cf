"""Textual form of extents: `768`, `n[1:512]`, `(h[3:64] + 1) floordiv 2`, `n[1:512] * b[1:8]`.

    extent  ::= product (("+" | "-") product)*
    product ::= factor (("*" | "floordiv" | "mod") factor)*
    factor  ::= "-" factor | integer | symbol | "(" extent ")" | ("min" | "max") "(" extent, .. ")"
    symbol  ::= name "[" least ":" greatest (":" multiple)? "]"

A symbol carries its range wherever it appears, so that types can be read without a context.
"""

from __future__ import annotations

import re

from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import (
    Extent,
    Size,
    maximum,
    minimum,
    named_size,
    symbols_of,
)
from tcopt.support.errors import InputError, UndecidedSize

_NAME = re.compile(r"[A-Za-z_][\w.]*")
_EXTREMA = {"min": minimum, "max": maximum}


def symbol_text(symbol: Symbol) -> str:
    """Return a symbol with its range: `n[1:512]`, or `n[16:512:16]` for multiples of 16."""
    ends = f"{symbol.low}:{symbol.high}"
    return f"{symbol.name}[{ends}{f':{symbol.multiple}' if symbol.multiple > 1 else ''}]"


def extent_text(extent: Extent) -> str:
    """Return the text of an extent, in which each symbol has its range."""
    if not isinstance(extent, Size):
        return str(extent)
    texts = {symbol.name: symbol_text(symbol) for symbol in symbols_of(extent)}
    return _NAME.sub(lambda match: texts.get(match[0], match[0]), str(extent))


def print_extent(printer: Printer, extent: Extent) -> None:
    """Print an extent."""
    printer.print_string(extent_text(extent))


def parse_extent(parser: AttrParser) -> Extent:
    """Parse an extent."""
    found = _parse_product(parser)
    while True:
        if parser.parse_optional_characters("+"):
            found = found + _parse_product(parser)
        elif parser.parse_optional_characters("-"):
            found = found - _parse_product(parser)
        else:
            return found


def _parse_product(parser: AttrParser) -> Extent:
    found = _parse_factor(parser)
    while True:
        start = parser.pos
        try:
            if parser.parse_optional_punctuation("*"):
                found = found * _parse_factor(parser)
            elif parser.parse_optional_keyword("floordiv"):
                found = found // _parse_factor(parser)
            elif parser.parse_optional_keyword("mod"):
                found = found % _parse_factor(parser)
            else:
                return found
        except (UndecidedSize, ZeroDivisionError) as error:
            parser.raise_error(str(error), start, parser.pos)


def _parse_factor(parser: AttrParser) -> Extent:
    if parser.parse_optional_characters("-"):
        return -_parse_factor(parser)
    if parser.parse_optional_punctuation("("):
        found = parse_extent(parser)
        parser.parse_punctuation(")")
        return found
    name = parser.parse_optional_identifier()
    if name is None:
        return parser.parse_integer(allow_boolean=False)
    if name in _EXTREMA:
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_extent(parser)
        )
        return _EXTREMA[name](*operands)
    start = parser.pos
    parser.parse_punctuation("[", " with the range of a size, as in n[1:512]")
    low = parser.parse_integer(allow_boolean=False)
    parser.parse_punctuation(":")
    high = parser.parse_integer(allow_boolean=False)
    multiple = 1
    if parser.parse_optional_punctuation(":"):
        multiple = parser.parse_integer(allow_boolean=False)
    parser.parse_punctuation("]")
    try:
        return named_size(name, low, high, multiple)
    except InputError as error:
        parser.raise_error(str(error), start, parser.pos)
