"""Range analysis of the integers of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import ml_dtypes
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects.graph.core.attributes import PoolKind
from tcopt.dialects.graph.core.constant import ConstantValues
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array, element_type, numpy_dtype
from tcopt.dialects.graph.elementwise.activation import ReluOp
from tcopt.dialects.graph.elementwise.arithmetic import SubOp
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.elementwise.lookup import LookupOp
from tcopt.dialects.graph.elementwise.quantize import QuantizerOp, is_quantized
from tcopt.dialects.graph.movement.layout import LayoutTransformOp
from tcopt.dialects.graph.movement.shape import MovementOp
from tcopt.dialects.graph.movement.slice import ConcatOp
from tcopt.dialects.graph.reduction.pool import PoolOp
from tcopt.passes.graph.folding.constants import Constants
from tcopt.support.data.dtypes import is_narrow
from tcopt.support.registries.rule_table import OpFunction

Limits: TypeAlias = tuple[int, int]
"""Minimum and maximum of a set of integers."""

limits_of: OpFunction[[Sequence[Limits]], Limits | None] = OpFunction(__name__, None)
"""The limits of an op's integers from those of its operands; None if they are unknown."""


class IntegerRanges:
    """Minimum and maximum of integer values, derived from ops."""

    def __init__(self, constants: Constants):
        self._constants = constants
        self._constant_values = ConstantValues()
        self._known: dict[SSAValue, Limits | None] = {}
        self._arrays: dict[SSAValue, Array | None] = {}

    def of(self, value: SSAValue) -> Limits | None:
        """Return the limits of a value; None if they are not known."""
        if value not in self._known:
            self._known[value] = self._found(value)
        return self._known[value]

    def array(self, value: SSAValue) -> Array | None:
        """Return the value of a compile-time constant, or None."""
        if value not in self._arrays:
            self._arrays[value] = self._evaluated(value)
        return self._arrays[value]

    def _found(self, value: SSAValue) -> Limits | None:
        element, op = element_type(value), value.owner
        if not _is_integer(element):
            return None
        widest = _limits_of_type(element) if is_quantized(element) or is_narrow(element) else None
        if not isinstance(op, GraphOp):
            return widest
        array = self.array(value)
        if array is not None and array.size:
            return int(array.min()), int(array.max())
        return self._of_op(op) or widest

    def _of_op(self, op: GraphOp) -> Limits | None:
        if isinstance(op, QuantizerOp):
            zero = self.of(op.zero)
            if not op.is_centered or zero is None:
                return None
            low, high = _limits_of_type(element_type(op.zero))
            return low - zero[1], high - zero[0]
        operands = [self.of(operand) for operand in op.operands]
        known = [limits for limits in operands if limits is not None]
        if not known or len(known) < len(operands):
            return None
        return limits_of(op, known)

    def _evaluated(self, value: SSAValue) -> Array | None:
        known = self._constants.value(value)
        op = value.owner
        if known is not None or not isinstance(op, GraphOp):
            return known
        if value not in self._constant_values:
            return None
        operands = [self.array(operand) for operand in op.operands]
        arrays = [array for array in operands if array is not None]
        return op.evaluate(*arrays)[0] if len(arrays) == len(operands) else None


def _is_integer(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and element != i1


def _limits_of_type(element: Attribute) -> Limits:
    limits = ml_dtypes.iinfo(numpy_dtype(element))
    return int(limits.min), int(limits.max)


def _if_it_fits(limits: Limits, op: GraphOp) -> Limits | None:
    """Return the limits of a result if its type holds them, so that nothing wraps around."""
    element = element_type(op.results[0])
    if not _is_integer(element):
        return None
    low, high = _limits_of_type(element)
    return limits if low <= limits[0] and limits[1] <= high else None


@limits_of.rule_for(CastOp)
def _cast(op: CastOp, operands: Sequence[Limits]) -> Limits | None:
    return _if_it_fits(operands[0], op)


@limits_of.rule_for(SubOp)
def _difference(op: SubOp, operands: Sequence[Limits]) -> Limits | None:
    (low, high), (least, greatest) = operands
    return _if_it_fits((low - greatest, high - least), op)


@limits_of.rule_for(MovementOp, ConcatOp)
def _union(op: GraphOp, operands: Sequence[Limits]) -> Limits:
    return min(low for low, _ in operands), max(high for _, high in operands)


@limits_of.rule_for(PoolOp)
def _pool(op: PoolOp, operands: Sequence[Limits]) -> Limits | None:
    return operands[0] if op.kind.data is PoolKind.MAX else None


@limits_of.rule_for(ReluOp)
def _relu(op: ReluOp, operands: Sequence[Limits]) -> Limits:
    low, high = operands[0]
    return max(low, 0), max(high, 0)


@limits_of.rule_for(LayoutTransformOp)
def _layout(op: LayoutTransformOp, operands: Sequence[Limits]) -> Limits:
    # Zeros pad blocks.
    low, high = operands[0]
    return min(low, 0), max(high, 0)


@limits_of.rule_for(LookupOp)
def _lookup(op: LookupOp, operands: Sequence[Limits]) -> Limits:
    values = op.values()
    return int(values.min()), int(values.max())
