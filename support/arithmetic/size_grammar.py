"""Grammar of symbolic sizes: `past + 1`, `2 * n`, `(h + 1) floordiv 2`, `n mod 4`, `min(n, 64)`.

    sum     ::= product (("+" | "-") product)*
    product ::= factor (("*" | "floordiv" | "ceildiv" | "mod") factor)*
    factor  ::= "-" factor | number | name | "(" sum ")" | ("min" | "max") "(" sum ("," sum)* ")"

The names and the tokens depend on the text that a size is part of: see `size_parser` for the text
of users, and `dialects/size` for the IR.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tcopt.support.arithmetic.sizes import Extent, Size, ceildiv, maximum, minimum

Operation: TypeAlias = Callable[..., Extent]


class Call(NamedTuple):
    """An operation of a size's syntax tree."""

    operation: Operation
    operands: Sequence[SizeTree]


SizeTree: TypeAlias = int | str | Size | Call
"""A number, a name, a size, or an operation."""


def _negated(a: Extent) -> Extent:
    return -a


def _divided(a: Extent, b: Extent) -> Extent:
    return a // b


_SUMS: dict[str, Operation] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Operation] = {
    "*": operator.mul,
    "floordiv": _divided,
    "ceildiv": ceildiv,
    "mod": operator.mod,
}
_FUNCTIONS: dict[str, Operation] = {"min": minimum, "max": maximum}


def evaluate_tree(tree: SizeTree, names: Mapping[str, Extent]) -> Extent:
    """Return the size of a syntax tree.

    Raises:
        KeyError: a name is not known.
        ZeroDivisionError: it divides by 0.
        UndecidedSize: a division does not have a form that holds for all values.
    """
    if isinstance(tree, str):
        return names[tree]
    if isinstance(tree, Call):
        return tree.operation(*(evaluate_tree(each, names) for each in tree.operands))
    return tree


class SizeParser(ABC):
    """Recursive-descent parser of sizes."""

    @abstractmethod
    def accept(self, token: str) -> bool:
        """Consume the next token if it is the given operator or punctuation."""

    @abstractmethod
    def expect(self, token: str) -> None:
        """Consume the given punctuation, or raise an error."""

    @abstractmethod
    def number(self) -> int | None:
        """Consume a number if it is next."""

    @abstractmethod
    def name(self) -> str:
        """Consume a name, or raise an error."""

    @abstractmethod
    def symbol(self, name: str) -> SizeTree:
        """Return the tree of a name that was consumed."""

    def size(self) -> SizeTree:
        """Parse a size."""
        return self._chain(_SUMS, self._product)

    def _product(self) -> SizeTree:
        return self._chain(_PRODUCTS, self._factor)

    def _chain(
        self, operators: Mapping[str, Operation], operand: Callable[[], SizeTree]
    ) -> SizeTree:
        tree = operand()
        while (operation := self._operation(operators)) is not None:
            tree = Call(operation, (tree, operand()))
        return tree

    def _operation(self, operators: Mapping[str, Operation]) -> Operation | None:
        return next((operators[token] for token in operators if self.accept(token)), None)

    def _factor(self) -> SizeTree:
        if self.accept("-"):
            return Call(_negated, (self._factor(),))
        if self.accept("("):
            tree = self.size()
            self.expect(")")
            return tree
        number = self.number()
        if number is not None:
            return number
        name = self.name()
        if name not in _FUNCTIONS or not self.accept("("):
            return self.symbol(name)
        operands = [self.size()]
        while self.accept(","):
            operands.append(self.size())
        self.expect(")")
        return Call(_FUNCTIONS[name], operands)
