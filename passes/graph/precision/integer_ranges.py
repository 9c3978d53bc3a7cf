"""Range analysis of the integers of a graph."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects.graph.core.attributes import PoolKind
from tcopt.dialects.graph.core.constant import ConstantOp, ConstantValues
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array, element_type, integer_range
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
from tcopt.support.arithmetic.intervals import Range, difference, is_within, join
from tcopt.support.data.dtypes import is_narrow
from tcopt.support.registries.rule_table import OpFunction

range_of_op: OpFunction[[Sequence[Range]], Range | None] = OpFunction(__name__, None)
"""Range of the values of an op's result, given the ranges of its operands; None if unknown."""


class IntegerRanges:
    """Minimum and maximum of integer values, derived from ops."""

    def __init__(self, constants: Constants):
        self._constants = constants
        self._constant_values = ConstantValues()
        self._known: dict[SSAValue, Range | None] = {}
        self._arrays: dict[SSAValue, Array | None] = {}

    def of(self, value: SSAValue) -> Range | None:
        """Return the range of a value; None if unknown."""
        if value not in self._known:
            self._known[value] = self._found(value)
        return self._known[value]

    def array(self, value: SSAValue) -> Array | None:
        """Return the value of a compile-time constant, or None."""
        if value not in self._arrays:
            self._arrays[value] = self._evaluated(value)
        return self._arrays[value]

    def _found(self, value: SSAValue) -> Range | None:
        element, op = element_type(value), value.owner
        if not _is_integer(element):
            return None
        widest = integer_range(element) if is_quantized(element) or is_narrow(element) else None
        if not isinstance(op, GraphOp):
            return widest
        array = self.array(value)
        if array is not None and array.size:
            return int(array.min()), int(array.max())
        return self._of_op(op) or widest

    def _of_op(self, op: GraphOp) -> Range | None:
        if isinstance(op, QuantizerOp):
            zero = self.of(op.zero)
            if not op.is_centered or zero is None:
                return None
            return difference(op.limits, zero)
        operands = [self.of(operand) for operand in op.operands]
        known = [found for found in operands if found is not None]
        if not known or len(known) < len(operands):
            return None
        return range_of_op(op, known)

    def _evaluated(self, value: SSAValue) -> Array | None:
        known = self._constants.value(value)
        op = value.owner
        # The value of a weight is unknown if the module has no store.
        if known is not None or not isinstance(op, GraphOp) or isinstance(op, ConstantOp):
            return known
        if value not in self._constant_values:
            return None
        operands = [self.array(operand) for operand in op.operands]
        arrays = [array for array in operands if array is not None]
        return op.evaluate(*arrays)[0] if len(arrays) == len(operands) else None


def _is_integer(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and element != i1


def _if_it_fits(found: Range, op: GraphOp) -> Range | None:
    """Return the range of a result if its type holds them, so that nothing wraps around."""
    element = element_type(op.results[0])
    if not _is_integer(element):
        return None
    return found if is_within(found, integer_range(element)) else None


@range_of_op.rule_for(CastOp)
def _cast(op: CastOp, operands: Sequence[Range]) -> Range | None:
    return _if_it_fits(operands[0], op)


@range_of_op.rule_for(SubOp)
def _difference(op: SubOp, operands: Sequence[Range]) -> Range | None:
    return _if_it_fits(difference(*operands), op)


@range_of_op.rule_for(MovementOp, ConcatOp)
def _union(op: GraphOp, operands: Sequence[Range]) -> Range:
    return join(operands)


@range_of_op.rule_for(PoolOp)
def _pool(op: PoolOp, operands: Sequence[Range]) -> Range | None:
    return operands[0] if op.kind.data is PoolKind.MAX else None


@range_of_op.rule_for(ReluOp)
def _relu(op: ReluOp, operands: Sequence[Range]) -> Range:
    low, high = operands[0]
    return max(low, 0), max(high, 0)


@range_of_op.rule_for(LayoutTransformOp)
def _layout(op: LayoutTransformOp, operands: Sequence[Range]) -> Range:
    # Zeros pad blocks.
    return join((operands[0], (0, 0)))


@range_of_op.rule_for(LookupOp)
def _lookup(op: LookupOp, operands: Sequence[Range]) -> Range:
    values = op.values()
    return int(values.min()), int(values.max())
