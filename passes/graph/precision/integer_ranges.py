"""Range analysis of the integers of a graph."""

from __future__ import annotations

import ml_dtypes
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, SSAValue

from tcopt.dialects.graph.binary import SubOp
from tcopt.dialects.graph.cast import CastOp
from tcopt.dialects.graph.constant import ConstantValues
from tcopt.dialects.graph.interfaces import GraphOp, Limits
from tcopt.dialects.graph.quantize import QuantizerOp, is_quantized
from tcopt.dialects.graph.types import Array, element_type, numpy_dtype
from tcopt.passes.graph.folding.constants import Constants
from tcopt.support.data.dtypes import is_narrow


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
        widest = _limits_of(element) if is_quantized(element) or is_narrow(element) else None
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
            low, high = _limits_of(element_type(op.zero))
            return low - zero[1], high - zero[0]
        operands = [self.of(operand) for operand in op.operands]
        known = [limits for limits in operands if limits is not None]
        if not known or len(known) < len(operands):
            return None
        if isinstance(op, CastOp):
            return _if_it_fits(known[0], op)
        if isinstance(op, SubOp):
            (low, high), (least, greatest) = known
            return _if_it_fits((low - greatest, high - least), op)
        return op.integer_limits(known)

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


def _limits_of(element: Attribute) -> Limits:
    limits = ml_dtypes.iinfo(numpy_dtype(element))
    return int(limits.min), int(limits.max)


def _if_it_fits(limits: Limits, op: GraphOp) -> Limits | None:
    """Return the limits of a result if its type holds them, so that nothing wraps around."""
    element = element_type(op.results[0])
    if not _is_integer(element):
        return None
    low, high = _limits_of(element)
    return limits if low <= limits[0] and limits[1] <= high else None
