"""Lexer of IR text: xDSL's, with linear run time and strings in any alphabet.

xDSL matches strings with `(a+|b)*`, which takes exponential time for an unterminated string. It
reads a string as escaped bytes as soon as one character is not ASCII, while the printer escapes all
of these. This lexer also reports errors for numbers of thousands of digits, which Python refuses to
convert, and for digits of other scripts.
"""

from __future__ import annotations

import re

from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Position, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

_MOST_DIGITS = 400
"""More than any float has before its decimal point; integers have at most 64 bits."""


class BoundedLexer(MLIRLexer):
    """Lexer whose run time is linear in the length of the text."""

    # Equivalent to xDSL's pattern, but matches each string in only one way.
    _unescaped_characters_regex = re.compile(
        r'"[^"\\\n\v\f]*(?:\\(?:["nt\\]|[0-9A-Fa-f]{2})[^"\\\n\v\f]*)*"'
    )

    def _lex_string_literal(self, start_pos: Position) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        try:
            StringLiteral(token.span.start, token.span.end, self.input).string_contents.encode()
        except UnicodeError:
            raise ParseError(token.span, "the string is not valid UTF-8") from None
        return MLIRToken(MLIRTokenKind.STRING_LIT, token.span)

    def _lex_prefixed_ident(self, start_pos: Position) -> MLIRToken:
        if self._suffix_id.match(self.input.content, self.pos) is None:
            first = self.input.content[start_pos]
            raise ParseError(
                Span(start_pos, self.pos + 1, self.input),
                f"expected a name after '{first}': letters of ASCII, digits, '$', '.', '_' and '-'",
            )
        return super()._lex_prefixed_ident(start_pos)

    def _lex_number(self, start_pos: Position) -> MLIRToken:
        if not self.input.content[start_pos].isascii():
            raise ParseError(Span(start_pos, self.pos, self.input), "unexpected character")
        token = super()._lex_number(start_pos)
        if len(token.span) > _MOST_DIGITS:
            raise ParseError(token.span, f"the number has more than {_MOST_DIGITS} digits")
        return token
