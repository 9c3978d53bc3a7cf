"""Reversal of the leading part of each row, with a length per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import Int, integer
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    normalize_axis,
    shape_of,
    type_of,
)
from tcopt.dialects.te import api as te


@irdl_op_definition
class ReverseSequenceOp(GraphOp):
    """Reverse the first lengths[b] elements of x along `axis`, for each b along `batch_axis`."""

    name = "graph.reverse_sequence"

    x = operand_def(TensorType)
    lengths = operand_def(TensorType)
    axis = prop_def(Int)
    batch_axis = prop_def(Int)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        lengths: SSAValue | Operation,
        *,
        axis: int,
        batch_axis: int,
    ):
        value = SSAValue.get(x)
        rank = len(shape_of(value))
        properties = {
            "axis": integer(normalize_axis(axis, rank)),
            "batch_axis": integer(normalize_axis(batch_axis, rank)),
        }
        super().__init__([value, lengths], properties)

    def infer(self) -> Sequence[AnyTensor]:
        """Return x's type."""
        shape, axis, batch = shape_of(self.x), self.axis.value.data, self.batch_axis.value.data
        if not (0 <= axis < len(shape) and 0 <= batch < len(shape) and axis != batch):
            raise VerifyException(f"axes {axis} and {batch} of {self.x.type} should differ")
        if not isinstance(element_type(self.lengths), IntegerType):
            raise VerifyException(f"lengths must be integers, got {element_type(self.lengths)}")
        if shape_of(self.lengths) != (shape[batch],):
            raise VerifyException(f"{self.lengths.type} does not hold {shape[batch]} lengths")
        return (type_of(self.x),)

    def compute(self, x: Array, lengths: Array) -> Array:
        """Evaluate the op with numpy."""
        axis, batch = self.axis.value.data, self.batch_axis.value.data
        moved = np.moveaxis(np.array(x), (batch, axis), (0, 1))
        for row, length in zip(moved, lengths, strict=True):
            row[:length] = row[:length][::-1].copy()
        return np.moveaxis(moved, (0, 1), (batch, axis))

    def tensor_expression(self, x: te.Tensor, lengths: te.Tensor) -> te.Tensor:
        """Return one stage with a computed index."""
        axis, batch = self.axis.value.data, self.batch_axis.value.data

        def body(*axes: te.Axis) -> te.Expr:
            length = te.cast(lengths[axes[batch]], "i64")
            place = te.cast(axes[axis], "i64")
            turned = te.select(place < length, length - 1 - place, place)
            return x[(*axes[:axis], te.index(turned), *axes[axis + 1 :])]

        return te.compute(self.shape, body, name="reverse_sequence")
