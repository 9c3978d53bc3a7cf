"""Parser of symbolic sizes: `past + 1`, `2 * n`, `(h + 1) floordiv 2`, `n mod 4`, `min(n, 64)`.

    sum     ::= product (("+" | "-") product)*
    product ::= factor (("*" | "floordiv" | "ceildiv" | "mod" | "//" | "%") factor)*
    factor  ::= "-" factor | number | name | "(" sum ")" | ("min" | "max") "(" sum ("," sum)* ")"

Names may have dots, as exporters number them. A difference needs spaces, so that `batch-size` is
not taken for one. `//` and `%` are the spellings of `floordiv` and `mod` that exporters use; sizes
print with words, as affine maps do.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tcopt.support.arithmetic.sizes import Extent, ceildiv, maximum, minimum
from tcopt.support.errors import ParsingError

_NAME = r"[^\W\d]\w*(?:\.\w+)*"
_NUMBER = r"[0-9]+"
_TOKEN = re.compile(rf"\s*({_NAME}|{_NUMBER}|//|[-+*%(),])")
# Larger numbers are not valid extents, and Python may refuse to convert them.
_MOST_DIGITS = 18
# The form of a product of sums may be much longer than its text.
_MOST_TOKENS = 100


class _Call(NamedTuple):
    """An operation of a size's syntax tree."""

    function: Callable[..., Extent]
    operands: Sequence[_Tree]


_Tree: TypeAlias = int | str | _Call
"""A number, a name, or an operation."""


def _negated(a: Extent) -> Extent:
    return -a


def _divided(a: Extent, b: Extent) -> Extent:
    return a // b


_SUMS: dict[str, Callable[..., Extent]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[..., Extent]] = {
    "*": operator.mul,
    "floordiv": _divided,
    "//": _divided,
    "ceildiv": ceildiv,
    "mod": operator.mod,
    "%": operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Extent]] = {"min": minimum, "max": maximum}


def parse_size(text: str, names: Mapping[str, Extent]) -> Extent:
    """Parse a size.

    Args:
        names: the size or value of each name.

    Raises:
        ParsingError: the text is malformed, has an unknown name, or divides by 0.
        UndecidedSize: a division does not have a form that holds for all values.
    """
    parser = _Parser(text)
    tree = parser.whole()
    for name in parser.names:
        if name not in names:
            listed = ", ".join(sorted(names)) or "none"
            raise parser.error(f"no size has the name '{name}'; known names are {listed}")
    try:
        return _evaluated(tree, names)
    except ZeroDivisionError:
        raise parser.error("division by 0") from None


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in the text of a size, in order of appearance; () if it is malformed."""
    parser = _Parser(text)
    try:
        parser.whole()
    except ParsingError:
        return ()
    return tuple(parser.names)


def _evaluated(tree: _Tree, names: Mapping[str, Extent]) -> Extent:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return names[tree]
    return tree.function(*(_evaluated(each, names) for each in tree.operands))


class _Parser:
    """Recursive-descent parser.

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

    def whole(self) -> _Tree:
        """Parse the whole text."""
        self._split()
        tree = self._sum()
        if self._next:
            raise self.error(f"unexpected '{self._next}'")
        return tree

    def _split(self) -> None:
        position, end = 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None:
                raise self.error(f"unexpected '{self._text[position:end].strip()}'")
            if match[1] == "-" and re.match(r"\w", self._text[match.start(1) - 1 : match.start(1)]):
                raise self.error("a difference has spaces around '-'")
            self._tokens.append(match[1])
            position = match.end()
            if len(self._tokens) > _MOST_TOKENS:
                raise self.error("it is too long")

    @property
    def _next(self) -> str:
        """The next token; empty at the end."""
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _accept(self, *tokens: str) -> str:
        token = self._next
        if token not in tokens:
            return ""
        self._position += 1
        return token

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self.error(f"expected '{token}', found '{self._next or 'the end'}'")

    def _sum(self) -> _Tree:
        return self._chain(_SUMS, self._product)

    def _product(self) -> _Tree:
        return self._chain(_PRODUCTS, self._factor)

    def _chain(
        self, operators: Mapping[str, Callable[..., Extent]], operand: Callable[[], _Tree]
    ) -> _Tree:
        tree = operand()
        while sign := self._accept(*operators):
            tree = _Call(operators[sign], (tree, operand()))
        return tree

    def _factor(self) -> _Tree:
        if self._accept("-"):
            return _Call(_negated, (self._factor(),))
        if self._accept("("):
            tree = self._sum()
            self._expect(")")
            return tree
        token = self._next
        self._position += 1
        if re.fullmatch(_NUMBER, token):
            if len(token) > _MOST_DIGITS:
                raise self.error(f"the number {token[:_MOST_DIGITS]}... is too large")
            return int(token)
        if token in _FUNCTIONS and self._accept("("):
            operands = [self._sum()]
            while self._accept(","):
                operands.append(self._sum())
            self._expect(")")
            return _Call(_FUNCTIONS[token], operands)
        if not re.fullmatch(_NAME, token):
            raise self.error(f"expected a number or a name, found '{token or 'the end'}'")
        self.names[token] = None
        return token
