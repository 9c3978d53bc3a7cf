r"""Strings of IR texts: what the printer writes as bytes that are not ASCII is text again.

xDSL prints `é` as `"\C3\A9"`, as MLIR does, and reads that as bytes, which names of dimensions,
places and weights are not.
"""

from __future__ import annotations

from xdsl.parser import AttrParser
from xdsl.utils.mlir_lexer import MLIRTokenKind, StringLiteral


class Utf8Strings(AttrParser):
    """A parser for which a string is one of any characters."""

    def parse_optional_str_literal(self) -> str | None:
        """A string, if the next token is one, or bytes that are UTF-8."""
        text = super().parse_optional_str_literal()
        token = self._current_token
        if text is not None or token.kind is not MLIRTokenKind.BYTES_LIT:
            return text
        try:
            text = StringLiteral.from_span(token.span).string_contents
        except UnicodeDecodeError:
            return None
        self._consume_token(MLIRTokenKind.BYTES_LIT)
        return text
