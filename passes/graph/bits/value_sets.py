"""Analysis of the set of values that the elements of a tensor can take, if it is small."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, Block, SSAValue

from tcopt.dialects.graph.core.attributes import PadMode
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array, element_type, integer_range, numpy_dtype
from tcopt.dialects.graph.elementwise.quantize import QuantizerOp
from tcopt.dialects.graph.movement.layout import LayoutTransformOp
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.passes.graph.folding.constants import Constants
from tcopt.support.registries.rule_table import OpFunction

MOST = 256
"""Maximum size of a set: the number of values of a byte."""

MOST_TOGETHER = 1 << 16
"""Maximum number of combinations of operand values on which an operator is evaluated."""


fill_values: OpFunction[[], Sequence[float] | None] = OpFunction(__name__, None)
"""Values that elements of an op's result may have in addition to elements of its operands; None if
other values may be computed."""


@fill_values.rule_for(GraphOp)
def _selected(op: GraphOp) -> Sequence[float] | None:
    return () if op.selects else None


@fill_values.rule_for(PadOp)
def _pad(op: PadOp) -> Sequence[float]:
    return (0,) if op.mode.data is PadMode.CONSTANT and op.value is None else ()


@fill_values.rule_for(LayoutTransformOp)
def _layout(op: LayoutTransformOp) -> Sequence[float]:
    # Zeros that pad blocks are not elements of the stored tensor.
    return ()


class ValueSets:
    """Sets of possible element values of each SSA value of a block.

    The set of an elementwise op's result is found by evaluating it on all combinations of its
    operands' values. An op that moves elements has the union of its operands' sets and its fill
    values. Otherwise, the set is all values of the element type, if they are few.
    """

    def __init__(self, body: Block, constants: Constants):
        self._constants = constants
        self._known: dict[SSAValue, Array | None] = {}
        for op in body.ops:
            for result in op.results:
                self._known[result] = self._found(op, result)

    def of(self, value: SSAValue) -> Array | None:
        """Return the possible values in order, or None if there are many."""
        return self._known[value] if value in self._known else _of_type(element_type(value))

    def _found(self, op: object, result: SSAValue) -> Array | None:
        if not isinstance(op, GraphOp) or len(op.results) != 1:
            return _of_type(element_type(result)) if isinstance(op, GraphOp) else None
        array = self._constants.value(result)
        if array is not None and array.size > MOST_TOGETHER:
            return _of_type(element_type(result))
        if array is not None:
            return _few(array)
        if isinstance(op, QuantizerOp):
            found = self._quantized(op)
        elif op.is_elementwise:
            found = self._of_elements(op)
        else:
            found = self._moved(op)
        return _of_type(element_type(result)) if found is None else found

    def _quantized(self, op: QuantizerOp) -> Array | None:
        """Return all values of the zero point's type, minus the zero point in centred results."""
        numbers = _of_type(element_type(op.zero))
        if numbers is None or not op.is_centered:
            return numbers
        zeros = self.of(op.zero)
        if zeros is None:
            return None
        wide = numbers.astype(np.int64)[:, None] - zeros.astype(np.int64)
        return _few(wide.astype(numpy_dtype(op.type.element_type)))

    def _of_elements(self, op: GraphOp) -> Array | None:
        sets = [self.of(operand) for operand in op.operands]
        known = [numbers for numbers in sets if numbers is not None]
        if len(known) < len(sets) or not known or prod(map(len, known)) > MOST_TOGETHER:
            return None
        grid = np.meshgrid(*known, indexing="ij") if len(known) > 1 else known
        with np.errstate(all="ignore"):
            result = np.asarray(op.compute(*(each.ravel() for each in grid)))
        return _few(result.astype(numpy_dtype(op.type.element_type)))

    def _moved(self, op: GraphOp) -> Array | None:
        fills = fill_values(op)
        if fills is None:
            return None
        sets = [self.of(operand) for operand in op.operands]
        known = [numbers for numbers in sets if numbers is not None]
        if len(known) < len(sets):
            return None
        element = numpy_dtype(op.type.element_type)
        return _few(np.concatenate([*known, np.array(fills, element)]).astype(element))


def _few(array: Array) -> Array | None:
    """Return the distinct values of an array; None if they are many or some are not finite."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return None
    numbers = np.unique(_plain(array))
    return numbers.astype(array.dtype) if 0 < len(numbers) <= MOST else None


def _plain(array: Array) -> Array:
    """Convert narrow integers to a type that numpy can sort."""
    return array.astype(np.int16) if array.dtype.kind == "V" or array.dtype.num > 255 else array


def _of_type(element: Attribute) -> Array | None:
    """Return all values of an integer type of up to 8 bits, or None."""
    if element == i1:
        return np.array([False, True])
    if not isinstance(element, IntegerType):
        return None
    dtype = numpy_dtype(cast("Attribute", element))
    if dtype.itemsize > 1:
        return None
    low, high = integer_range(cast("Attribute", element))
    return np.arange(low, high + 1).astype(dtype)
