"""Parser of symbolic sizes in the text of users and models, such as `past + 1`.

Names may have dots, as exporters number them. A difference needs spaces, so that `batch-size` is
not taken for one. Exporters write `//` and `%` for `floordiv` and `mod`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tcopt.support.arithmetic.size_grammar import SizeParser, SizeTree, evaluate_tree
from tcopt.support.arithmetic.sizes import Extent, lower_bound
from tcopt.support.errors import ParsingError

_NAME = r"[^\W\d]\w*(?:\.\w+)*"
_NUMBER = r"[0-9]+"
_TOKEN = re.compile(rf"\s*({_NAME}|{_NUMBER}|//|[-+*%(),])")
_SPELLINGS = {"//": "floordiv", "%": "mod"}
# Larger numbers are not valid extents, and Python may refuse to convert them.
_MOST_DIGITS = 18
# The form of a product of sums may be much longer than its text.
_MOST_TOKENS = 100


def parse_size(text: str, names: Mapping[str, Extent]) -> Extent:
    """Parse a size.

    Args:
        names: the size or value of each name.

    Raises:
        ParsingError: the text is malformed, has an unknown name, or divides by 0.
        UndecidedSize: a division does not have a form that holds for all values.
    """
    parser = _TextParser(text)
    tree = parser.whole()
    for name in parser.names:
        if name not in names:
            listed = ", ".join(sorted(names)) or "none"
            raise parser.error(f"no size has the name '{name}'; known names are {listed}")
    try:
        return evaluate_tree(tree, names)
    except ZeroDivisionError:
        raise parser.error("division by 0") from None


def derived_extent(dim: str, extents: Mapping[str, Extent]) -> Extent | None:
    """Return the extent of a dimension such as `past + 1`; None if a name of it is not known.

    It is also None if the result is not an extent, as for `length - 8` with a length of 4.
    """
    try:
        found = parse_size(dim, extents)
    except ParsingError:
        return None
    return found if lower_bound(found) >= 0 else None


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in the text of a size, in order of appearance; () if it is malformed."""
    parser = _TextParser(text)
    try:
        parser.whole()
    except ParsingError:
        return ()
    return tuple(parser.names)


class _TextParser(SizeParser):
    """Parser of a text that is one size.

    Attributes:
        names: the names that were parsed.
    """

    def __init__(self, text: str):
        self._text = text
        self._tokens: list[str] = []
        self._position = 0
        self.names: dict[str, None] = {}

    def error(self, message: str) -> ParsingError:
        """Return an error about the text."""
        return ParsingError(
            f"{self._text!r} is not a size: {message}",
            hint="write sizes as 'n', 'past + 1', '2 * n' or '(h + 1) floordiv 2'",
        )

    def whole(self) -> SizeTree:
        """Parse the whole text."""
        self._split()
        tree = self.size()
        if self._next:
            raise self.error(f"unexpected '{self._next}'")
        return tree

    def _split(self) -> None:
        position, end = 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None:
                raise self.error(f"unexpected '{self._text[position:end].strip()}'")
            start = match.start(1)
            if match[1] == "-" and re.match(r"\w", self._text[start - 1 : start]):
                raise self.error("a difference has spaces around '-'")
            self._tokens.append(_SPELLINGS.get(match[1], match[1]))
            position = match.end()
            if len(self._tokens) > _MOST_TOKENS:
                raise self.error("it is too long")

    @property
    def _next(self) -> str:
        """The next token; empty at the end."""
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def accept(self, token: str) -> bool:
        """Consume the next token if it is the given one."""
        if self._next != token:
            return False
        self._position += 1
        return True

    def expect(self, token: str) -> None:
        """Consume a token, or raise an error."""
        if not self.accept(token):
            raise self.error(f"expected '{token}', found '{self._next or 'the end'}'")

    def number(self) -> int | None:
        """Consume a number if it is next."""
        token = self._next
        if not re.fullmatch(_NUMBER, token):
            return None
        if len(token) > _MOST_DIGITS:
            raise self.error(f"the number {token[:_MOST_DIGITS]}... is too large")
        self._position += 1
        return int(token)

    def name(self) -> str:
        """Consume a name, or raise an error."""
        token = self._next
        if not re.fullmatch(_NAME, token):
            raise self.error(f"expected a number or a name, found '{token or 'the end'}'")
        self._position += 1
        return token

    def symbol(self, name: str) -> SizeTree:
        """Return a name, whose size is looked up later."""
        self.names[name] = None
        return name
