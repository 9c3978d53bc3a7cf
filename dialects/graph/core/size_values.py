"""Sizes as values that a program computes with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import irdl_op_definition, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import Indices
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    as_extents,
    is_float,
    numpy_dtype,
    tensor,
)
from tcopt.dialects.size import DimsAttr
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed


@irdl_op_definition
class SizesOp(GraphOp):
    """Integers that are sizes, in row-major order.

    %0 = graph.sizes {values = #size.dims<n[1:8], 3>} : tensor<2xi64>
    """

    name = "graph.sizes"

    values = prop_def(DimsAttr)
    result = result_def(TensorType)

    def __init__(self, shape: Sequence[int], values: Sequence[int], element: Attribute):
        super().__init__([], {"values": DimsAttr(tuple(values))}, tensor(shape, element))
        self.infer()

    def infer(self) -> Sequence[AnyTensor]:
        """Return the declared type."""
        if is_float(self.type.element_type):
            raise VerifyException(f"sizes are integers, not {self.type.element_type}")
        if math.prod(self.shape) != len(self.values.extents):
            raise VerifyException(f"{len(self.values.extents)} values for {self.type}")
        return (self.type,)

    def simplify(self) -> Sequence[Operation] | None:
        """Replace numbers by a constant."""
        if not is_fixed(self.values.extents):
            return None
        return (
            ConstantOp.literal(np.asarray(self.compute(), numpy_dtype(self.type.element_type))),
        )

    def compute(self) -> Array:
        """Evaluate the op with numpy; the values must be numbers."""
        return np.array(self.values.extents, np.int64).reshape(self.shape)

    def tensor_expression(self, *inputs: te.Tensor) -> te.Tensor:
        """Return one stage that selects a value by its index."""
        element, values = self.type.element_type, as_extents(self.values.extents)

        def body(*axes: te.Axis) -> te.Expr:
            value = te.const(values[-1], element)
            for place in range(len(values) - 2, -1, -1):
                value = te.select(self._is_at(axes, place), te.const(values[place], element), value)
            return value

        return te.compute(self.shape, body, name="sizes")

    def _is_at(self, axes: Indices, place: int) -> te.Expr:
        """Return the condition that the flat index is at most `place`."""
        flat = te.const(0, "i64")
        for axis, extent in zip(axes, self.shape, strict=True):
            flat = flat * te.const(extent, "i64") + te.cast(axis, "i64")
        return flat <= te.const(place, "i64")
