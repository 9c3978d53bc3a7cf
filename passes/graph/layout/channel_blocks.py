"""Channel blocks: their size, and the value of the lanes beyond the last channel."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, numpy_dtype, shape_of
from tcopt.dialects.graph.core.weights import WeightStore

SMALLEST_BLOCK = 4
"""Minimum block size: the smallest vector has four lanes."""


def block_of(channels: int, lanes: int) -> int:
    """Return the block size for data with `channels` channels.

    It is a full vector, or for few channels the smallest power of two that holds them. It depends
    on nothing else, so the operands of an op always have equal blocks.
    """
    block = min(lanes, SMALLEST_BLOCK)
    while block < min(channels, lanes):
        block *= 2
    return min(block, lanes)


class SpareLanes:
    """Value of the lanes beyond the last channel of each blocked value.

    All spare lanes of a value hold the same number: convolutions produce 0, because their weights
    are padded with zeros, and other ops compute it from their operands' numbers. As long as it is
    finite, a convolution that multiplies it by a zero weight discards it.
    """

    def __init__(self, store: WeightStore | None):
        self.store = store
        self.numbers: dict[SSAValue, float] = {}

    def of(self, value: SSAValue) -> float:
        """Return the number in a value's spare lanes; 0 if a layout transform fills them."""
        return self.numbers.get(value, 0.0)

    def result(self, op: GraphOp) -> float | None:
        """Return what an op computes in the spare lanes; None if it is not a single finite number.

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
        """Return an array like a value's spare channels, with one element if that is enough."""
        shape = shape_of(value)
        if all(extent == 1 for extent in shape):
            return self._constant(value)
        form: Sequence[int] = [1] * len(shape) if elementwise else shape
        return np.full(form, self.of(value)).astype(numpy_dtype(element_type(value)))

    def _constant(self, value: SSAValue) -> np.ndarray | None:
        """Return the value of a one-element constant, which applies to every lane."""
        op = value.owner
        if not isinstance(op, ConstantOp):
            return None
        literal, name = op.literal_value, op.weight_name
        if literal is None and name is not None and self.store is not None:
            literal = self.store.get(name)
        return literal


def fits_concat(channels: Sequence[int], lanes: int) -> bool:
    """Whether the concatenated blocks of the parts are the blocks of the whole."""
    block = block_of(sum(channels), lanes)
    *inner, last = channels
    return all(n % block == 0 for n in inner) and block_of(last, lanes) == block


def is_of_bytes(op: ContractionOp) -> bool:
    """Whether both operands have 8-bit integer elements."""
    elements = [element_type(operand) for operand in op.operands]
    return all(isinstance(each, IntegerType) and each.bitwidth == 8 for each in elements)
