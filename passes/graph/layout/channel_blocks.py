"""Blocks of channels: how many channels share one, and what lanes beyond the last channel hold."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from tcopt.dialects.graph.constant import ConstantOp
from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.types import element_type, numpy_dtype, shape_of
from tcopt.dialects.graph.weights import WeightStore

SMALLEST_BLOCK = 4
"""Channels below which a smaller block saves nothing: the smallest vector has four lanes."""


def block_of(channels: int, lanes: int) -> int:
    """Channels in a block of data with so many channels.

    That is a full vector, or for few channels the smallest power of two that holds them.
    Blocks depend on nothing else, so that values which meet in an op agree.
    """
    block = min(lanes, SMALLEST_BLOCK)
    while block < min(channels, lanes):
        block *= 2
    return min(block, lanes)


class SpareLanes:
    """The number in the lanes beyond the last channel of each blocked value.

    It is one number for all lanes of a value: convolutions put 0 there, because their
    weights are filled up with zeros, and light ops make a number from those of their
    operands. While it is finite, a convolution that multiplies it by zero loses it.
    """

    def __init__(self, store: WeightStore | None):
        self.store = store
        self.numbers: dict[SSAValue, float] = {}

    def of(self, value: SSAValue) -> float:
        """The number in spare lanes of a value; 0 for those that a transform fills."""
        return self.numbers.get(value, 0.0)

    def result(self, op: GraphOp) -> float | None:
        """What an op on channels makes of its operands' spare lanes; None if not one number.

        Args:
            op: the op on plain data, elementwise or along axes other than channels.
        """
        arrays = [self._lanes(operand, op.is_elementwise) for operand in op.operands]
        if any(array is None for array in arrays):
            return None
        with np.errstate(all="ignore"):
            result = np.asarray(op.compute(*arrays), np.float64)
        first = float(result.flat[0]) if result.size else 0.0
        same = bool(np.all(result == first))
        return first if same and isfinite(first) else None

    def _lanes(self, value: SSAValue, elementwise: bool) -> np.ndarray | None:
        """An array like a value's spare channels, one element of each if that is enough."""
        shape = shape_of(value)
        if all(extent == 1 for extent in shape):
            return self._constant(value)
        form: Sequence[int] = [1] * len(shape) if elementwise else shape
        return np.full(form, self.of(value)).astype(numpy_dtype(element_type(value)))

    def _constant(self, value: SSAValue) -> np.ndarray | None:
        """A one-element constant, which counts in every lane."""
        op = value.owner
        if not isinstance(op, ConstantOp):
            return None
        literal, name = op.literal_value, op.weight_name
        if literal is None and name is not None and self.store is not None:
            literal = self.store.get(name)
        return literal


def fits_concat(channels: Sequence[int], lanes: int) -> bool:
    """Whether the blocks of parts, one after the other, are those of the whole."""
    block = block_of(sum(channels), lanes)
    *inner, last = channels
    return all(n % block == 0 for n in inner) and block_of(last, lanes) == block


def is_of_bytes(op: ContractionOp) -> bool:
    """Whether both operands are integers of 8 bits."""
    elements = [element_type(operand) for operand in op.operands]
    return all(isinstance(each, IntegerType) and each.bitwidth == 8 for each in elements)
