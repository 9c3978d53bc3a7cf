"""Sizes of a function under construction: canonical symbols, and the values that a call gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr

from tcopt.dialects.size import size_expression, size_of
from tcopt.support.arithmetic.size_terms import MinMax, Monomial, Polynomial, Quotient, Symbol
from tcopt.support.arithmetic.sizes import Extent, Size, bounds_of


class FunctionSizes:
    """Symbols `s0`, `s1`, ... of a function, in order of first use, and their values.

    A function on tensors of `batch * length` rows has one size for the product. Indices then stay
    affine, and functions of models that name their sizes differently are equal:

        tensor<4096x768xf32, #size.dims<batch[1:8] * length[1:512], 768>>    of the caller
        tensor<4096x768xf32, #size.dims<s0[1:4096], 768>>                    of the function

    Attributes:
        symbols: the sizes of the function.
        values: the size of the caller that each of them stands for.
        arguments: the argument of the function that holds each of them, by name.
    """

    def __init__(self) -> None:
        self.symbols: list[Symbol] = []
        self.values: list[Size] = []
        self.arguments: dict[str, SSAValue] = {}
        self._block: Block | None = None
        self._known: dict[Monomial, Extent] = {}

    def add_arguments(self, block: Block) -> None:
        """Append an argument for each size, also for those that are found later."""
        self._block = block
        for symbol in self.symbols:
            self._add_argument(block, symbol)

    def shape(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Return the extents of a tensor of the caller as extents of the function."""
        return tuple([self.extent(extent) for extent in extents])

    def extent(self, extent: Extent) -> int:
        """Return an extent of the caller as an extent of the function."""
        if not isinstance(extent, Size):
            return extent
        found: Extent = extent.value.constant
        for monomial, factor in extent.value.terms:
            found = found + factor * self._part(monomial)
        return cast(int, found)

    def expression(self, size: Extent) -> tuple[AffineExpr, list[SSAValue]]:
        """Return a size of the caller as an index expression over the function's arguments."""
        return size_expression(self.extent(size), self.arguments)

    def size_of(self, argument: SSAValue) -> Extent:
        """Return the size that an argument holds."""
        (symbol,) = (s for s in self.symbols if self.arguments[s.name] is argument)
        return size_of(symbol)

    def _part(self, monomial: Monomial) -> Extent:
        found = self._known.get(monomial)
        if found is None:
            found = self._known[monomial] = self._new_part(monomial)
        return found

    def _new_part(self, monomial: Monomial) -> Extent:
        atom = monomial[0]
        if len(monomial) == 1 and isinstance(atom, Quotient):
            return self.extent(Size(atom.operand)) // atom.divisor
        if len(monomial) == 1 and isinstance(atom, Symbol):
            named = Size(Polynomial(((monomial, atom.multiple),)))
            return self._symbol(named, atom.multiple) // atom.multiple
        assert len(monomial) > 1 or isinstance(atom, MinMax)
        return self._symbol(Size(Polynomial(((monomial, 1),))), 1)

    def _symbol(self, value: Size, multiple: int) -> Extent:
        """Add a symbol with the range of a value."""
        low, high = bounds_of(value)
        symbol = Symbol(f"s{len(self.symbols)}", low, high, multiple)
        size = size_of(symbol)
        if isinstance(size, Size):
            self.symbols.append(symbol)
            self.values.append(value)
            if self._block is not None:
                self._add_argument(self._block, symbol)
        return size

    def _add_argument(self, block: Block, symbol: Symbol) -> None:
        argument = block.insert_arg(IndexType(), len(block.args))
        argument.name_hint = symbol.name
        self.arguments[symbol.name] = argument
