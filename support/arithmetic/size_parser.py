"""Parser of symbolic sizes: `past + 1`, `2 * n`, `(h + 1) floordiv 2`, `n mod 4`, `min(n, 64)`.

    sum     ::= product (("+" | "-") product)*
    product ::= factor (("*" | "floordiv" | "ceildiv" | "mod" | "//" | "%") factor)*
    factor  ::= "-" factor | number | name | "(" sum ")" | ("min" | "max") "(" sum ("," sum)* ")"

Names may have dots, as exporters number them. `//` and `%` are other spellings of `floordiv` and
`mod`, which exporters use; sizes print with words, as affine maps do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tcopt.support.arithmetic.sizes import Extent, ceildiv, maximum, minimum
from tcopt.support.errors import ParsingError

_NAME = r"[^\W\d]\w*(?:\.\w+)*"
_TOKEN = re.compile(rf"\s*({_NAME}|[0-9]+|//|[-+*%(),])")
_DIVISIONS = {"floordiv": "floordiv", "//": "floordiv", "ceildiv": "ceildiv"}
_REMAINDERS = {"mod", "%"}
# Larger numbers are not valid extents, and Python may refuse to convert them.
_MOST_DIGITS = 18
_MOST_TOKENS = 1000


def parse_size(text: str, names: Mapping[str, Extent]) -> Extent:
    """Parse a size.

    Args:
        names: the size or value of each name.

    Raises:
        ParsingError: the text is malformed, or has an unknown name.
        UndecidedSize: a division does not have a form that holds for all values.
    """
    parser = _Parser(text, names)
    found = parser.sum()
    parser.end()
    return found


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in the text of a size, in order of appearance; () if it is malformed."""
    parser = _Parser(text, None)
    try:
        parser.sum()
        parser.end()
    except ParsingError:
        return ()
    return tuple(parser.found)


class _Parser:
    """Recursive-descent parser; without `names`, each name is 1 and divisions are not evaluated."""

    def __init__(self, text: str, names: Mapping[str, Extent] | None):
        self._text, self._names = text, names
        self._tokens = _tokens(text)
        self._position = 0
        self.found: dict[str, None] = {}

    def _fail(self, message: str) -> ParsingError:
        return ParsingError(
            f"{self._text!r} is not a size: {message}",
            hint="write sizes as 'n', 'past + 1', '2 * n' or '(h + 1) floordiv 2'",
        )

    def _peek(self, ahead: int = 0) -> str:
        place = self._position + ahead
        return self._tokens[place] if place < len(self._tokens) else ""

    def _accept(self, *tokens: str) -> str:
        token = self._peek()
        if token not in tokens:
            return ""
        self._position += 1
        return token

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self._fail(f"expected '{token}', found '{self._peek() or 'the end'}'")

    def end(self) -> None:
        """Require the end of the text."""
        if self._peek():
            raise self._fail(f"unexpected '{self._peek()}'")

    def sum(self) -> Extent:
        """Parse a sum."""
        found = self._product()
        while sign := self._accept("+", "-"):
            part = self._product()
            found = found + part if sign == "+" else found - part
        return found

    def _product(self) -> Extent:
        found = self._factor()
        while sign := self._accept("*", *_DIVISIONS, *_REMAINDERS):
            part = self._factor()
            found = found * part if sign == "*" else self._divided(found, sign, part)
        return found

    def _divided(self, value: Extent, sign: str, divisor: Extent) -> Extent:
        if self._names is None:
            return 1
        if divisor == 0:
            raise self._fail("division by 0")
        if sign in _REMAINDERS:
            return value % divisor
        return ceildiv(value, divisor) if _DIVISIONS[sign] == "ceildiv" else value // divisor

    def _factor(self) -> Extent:
        if self._accept("-"):
            return -self._factor()
        if self._accept("("):
            found = self.sum()
            self._expect(")")
            return found
        token = self._peek()
        self._position += 1
        if token.isdecimal():
            if len(token) > _MOST_DIGITS:
                raise self._fail(f"{token[:_MOST_DIGITS]}... is too large")
            return int(token)
        if token in ("min", "max") and self._accept("("):
            return self._extremum(token)
        if not re.fullmatch(_NAME, token):
            raise self._fail(f"expected a number or a name, found '{token or 'the end'}'")
        return self._named(token)

    def _extremum(self, function: str) -> Extent:
        found = [self.sum()]
        while self._accept(","):
            found.append(self.sum())
        self._expect(")")
        if self._names is None:
            return 1
        return maximum(*found) if function == "max" else minimum(*found)

    def _named(self, name: str) -> Extent:
        self.found[name] = None
        if self._names is None:
            return 1
        if name not in self._names:
            listed = ", ".join(sorted(self._names)) or "none"
            raise self._fail(f"no size has the name '{name}'; known names are {listed}")
        return self._names[name]


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    end = len(text.rstrip())
    while position < end and len(found) <= _MOST_TOKENS:
        match = _TOKEN.match(text, position)
        if match is None:
            return [*found, text[position:].strip()]
        found.append(match[1])
        position = match.end()
    return found
