"""Reinterpretation of bits as another element type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    bits_of,
    element_type,
    numpy_dtype,
    shape_of,
    tensor,
)
from tcopt.dialects.te import api as te


@irdl_op_definition
class BitcastOp(GraphOp):
    """Reinterpret x's bits as another type: `f32` as `i32`. No data moves.

    Elements of the last axis that together are as wide as one element of the new type become that
    element, lowest bits first, as in ONNX: `tensor<2x4xui8>` as `tensor<2xui32>`.
    """

    name = "graph.bitcast"
    VIEW: ClassVar[bool] = True

    x = operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation, element: Attribute):
        value = SSAValue.get(x)
        shape = shape_of(value)
        if shape and bits_of(element) == shape[-1] * bits_of(element_type(value)):
            shape = shape[: len(shape) - (shape[-1] > 1)]
        super().__init__([value], None, tensor(shape, element))

    def infer(self) -> Sequence[AnyTensor]:
        """Return x's shape, without the last axis if it is joined, with the declared type."""
        source, target = element_type(self.x), self.type.element_type
        shape = shape_of(self.x)
        joined = shape[-1] if len(self.shape) == len(shape) - 1 else 1
        if (source == i1) != (target == i1) or bits_of(source) * joined != bits_of(target):
            raise VerifyException(f"{source} and {target} differ in width")
        return (tensor(shape[: len(self.shape)], target),)

    def unchanged(self) -> SSAValue | None:
        """Return x, if its type does not change."""
        return self.x

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        """Evaluate with numpy as a view of the same bytes."""
        return (self.compute(*arrays),)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.ascontiguousarray(x).view(numpy_dtype(self.type.element_type)).reshape(self.shape)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Raise ExpressionError: a view is not a computation."""
        raise te.ExpressionError("a bitcast is a view, not a tensor expression")
