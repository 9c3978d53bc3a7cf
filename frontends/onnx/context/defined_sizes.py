"""Sizes that a program computes from data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from xdsl.ir import Block, Operation, SSAValue

from tcopt.dialects.graph.core.types import as_extents
from tcopt.dialects.size import DefineOp, DimsAttr, defined_symbols, symbols_in
from tcopt.dialects.te.names import unique_name
from tcopt.support.arithmetic.sizes import Extent, named_size, upper_bound


class _Builder(Protocol):
    block: Block

    def append(self, op: Operation) -> Sequence[SSAValue]: ...


class DefinedSizes:
    """Adds definitions of sizes to a function.

    The same integer is the same size, so that operators accept equal extents.
    """

    def __init__(self, builder: _Builder):
        self._builder = builder
        self._known: dict[SSAValue, int] = {}

    def define(self, name: str, count: SSAValue, high: Extent) -> int:
        """Return the size that an integer tensor with one element has when the program runs.

        Args:
            name: name of the value that has the size.
            high: upper bound of the integer.
        """
        high = upper_bound(high)
        known = self._known.get(count)
        if known is not None and upper_bound(known) <= high:
            return known
        block = self._builder.block
        taken = {symbol.name for symbol in symbols_in(block.arg_types)}
        taken |= {symbol.name for symbol in defined_symbols(block)}
        name = unique_name(re.sub(r"\W|^(?=\d)", "_", name), taken)
        (size,) = as_extents([named_size(name, 0, high)])
        self._builder.append(DefineOp(count, DimsAttr((size,))))
        self._known[count] = size
        return size
