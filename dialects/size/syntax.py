"""Textual form of extents in IR: `768`, `n[1:512]`, `(h[3:64] + 1) floordiv 2`.

The grammar is that of `tcopt.support.arithmetic.size_grammar`. A symbol carries its range wherever
it appears, so that types can be read without a context:

    symbol ::= (name | string) "[" least ":" greatest (":" multiple)? "]"
"""

from __future__ import annotations

import re

from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tcopt.support.arithmetic.size_grammar import SizeParser, SizeTree, evaluate_tree
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import Extent, named_size, size_text
from tcopt.support.errors import InputError, UndecidedSize

_BARE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def symbol_text(symbol: Symbol) -> str:
    """Return a symbol with its range: `n[1:512]`, or `n[16:512:16]` for multiples of 16."""
    name = symbol.name if _BARE_NAME.fullmatch(symbol.name) else f'"{symbol.name}"'
    step = f":{symbol.multiple}" if symbol.multiple > 1 else ""
    return f"{name}[{symbol.low}:{symbol.high}{step}]"


def extent_text(extent: Extent) -> str:
    """Return the text of an extent, in which each symbol has its range."""
    return size_text(extent, symbol_text)


def print_extent(printer: Printer, extent: Extent) -> None:
    """Print an extent."""
    printer.print_string(extent_text(extent))


def parse_extent(parser: AttrParser) -> Extent:
    """Parse an extent."""
    start = parser.pos
    tree = _ExtentParser(parser).size()
    try:
        return evaluate_tree(tree, {})
    except (UndecidedSize, ZeroDivisionError) as error:
        parser.raise_error(str(error), start, parser.pos)


class _ExtentParser(SizeParser):
    """Parser of extents as a part of IR text."""

    def __init__(self, parser: AttrParser):
        self._parser = parser

    def accept(self, token: str) -> bool:
        """Consume an operator or punctuation if it is next."""
        if token.isalpha():
            return self._parser.parse_optional_keyword(token) is not None
        return self._parser.parse_optional_characters(token) is not None

    def expect(self, token: str) -> None:
        """Consume punctuation, or raise an error."""
        self._parser.parse_characters(token)

    def number(self) -> int | None:
        """Consume a number if it is next."""
        return self._parser.parse_optional_integer(allow_boolean=False, allow_negative=False)

    def name(self) -> str:
        """Consume a name, or raise an error."""
        text = self._parser.parse_optional_str_literal()
        if text is None:
            text = self._parser.parse_optional_identifier()
        if text is None:
            self._parser.raise_error("expected a number or a size, as in n[1:512]")
        return text

    def symbol(self, name: str) -> SizeTree:
        """Parse the range of a symbol."""
        parser = self._parser
        start = parser.pos
        parser.parse_punctuation("[", " with the range of a size, as in n[1:512]")
        low = self._limit()
        parser.parse_punctuation(":")
        high = self._limit()
        multiple = self._limit() if parser.parse_optional_punctuation(":") else 1
        parser.parse_punctuation("]")
        try:
            return named_size(name, low, high, multiple)
        except InputError as error:
            parser.raise_error(str(error), start, parser.pos)

    def _limit(self) -> int:
        return self._parser.parse_integer(allow_boolean=False)
