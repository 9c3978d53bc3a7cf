"""Sizes that a program computes from data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import as_extent
from tcopt.dialects.size import DefineOp, DimsAttr, defined_symbols, symbols_in
from tcopt.dialects.te.names import unique_name
from tcopt.support.arithmetic.size_terms import Symbol
from tcopt.support.arithmetic.sizes import Extent, lower_bound, minimum, named_size, upper_bound


class _Builder(Protocol):
    block: Block
    known: dict[SSAValue, NDArray[Any]]

    def append(self, op: Operation) -> Sequence[SSAValue]: ...


_MOST_STEPS = 8
"""Number of ops in a row that are compared."""


class DefinedSizes:
    """Adds definitions of sizes to a function.

    Integers that are computed alike are the same size, so that operators accept equal extents: each
    tensor that a model indexes by one mask has a NonZero of its own.
    """

    def __init__(self, builder: _Builder):
        self._builder = builder
        self._known: dict[SSAValue, int] = {}

    def define(self, name: str, count: SSAValue, high: Extent) -> int:
        """Return the size that an integer tensor with one element has when the program runs; a
        number if it is known.

        Args:
            name: name of the value that has the size.
            high: upper bound of the integer. If it is a size, so is the result's:
                `min(found, high)`, which is never greater.
        """
        number = self._builder.known.get(count)
        if number is not None or upper_bound(high) == 0:
            return 0 if number is None else int(number.flat[0])
        for other, known in self._known.items():
            if _is_at_most(known, high) and are_equal(count, other):
                return known
        size = named_size(self.unused_name(name), 0, upper_bound(high))
        self.add(count, as_extent(size))
        self._known[count] = as_extent(minimum(size, high))
        return self._known[count]

    @property
    def symbols(self) -> set[Symbol]:
        """The sizes of the function's arguments, and those that are defined so far."""
        block = self._builder.block
        return {*symbols_in(block.arg_types), *defined_symbols(block)}

    def unused_name(self, name: str, others: Iterable[str] = ()) -> str:
        """Return an identifier for a size that no other size has.

        Args:
            name: the name of its value.
            others: identifiers that are used in addition to those of `symbols`.
        """
        used = {*others, *(symbol.name for symbol in self.symbols)}
        return unique_name(re.sub(r"\W|^(?=\d)", "_", name), used)

    def add(self, count: SSAValue, size: int) -> None:
        """Define a size by an integer tensor with one element."""
        self._builder.append(DefineOp(count, DimsAttr((size,))))
        self._known[count] = size


def _is_at_most(extent: Extent, high: Extent) -> bool:
    """Whether ranges prove that an extent is at most another."""
    return lower_bound(high - extent) >= 0


def are_equal(a: SSAValue, b: SSAValue, steps: int = _MOST_STEPS) -> bool:
    """Whether two values are the same, or the same ops compute them from the same values."""
    if a is b:
        return True
    if not (isinstance(a, OpResult) and isinstance(b, OpResult)) or steps == 0:
        return False
    x, y = a.op, b.op
    return (
        isinstance(x, GraphOp)
        and type(x) is type(y)
        and (a.index, a.type, x.properties) == (b.index, b.type, y.properties)
        and len(x.operands) == len(y.operands)
        and not (x.regions or x.is_host_call)
        and all(are_equal(p, q, steps - 1) for p, q in zip(x.operands, y.operands, strict=True))
    )
