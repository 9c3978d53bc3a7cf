"""Sizes as values that a program computes with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

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
from tcopt.support.arithmetic.sizes import Extent, bounds_of, is_fixed


def whole_numbers(array: Array) -> Array | None:
    """Return an array for arithmetic with sizes: floats become ints, fractions give None."""
    if array.dtype.kind not in "fV":
        return array
    numbers = array.astype(np.float64)
    if not (np.isfinite(numbers).all() and np.array_equal(numbers, np.floor(numbers))):
        return None
    return np.array([int(n) for n in numbers.flat], object).reshape(array.shape)


def are_exact(values: Iterable[Extent], dtype: np.dtype[Any]) -> bool:
    """Whether a float type represents all values of sizes."""
    if dtype.type not in (np.float32, np.float64):
        return False
    most = 1 << (np.finfo(dtype).nmant + 1)
    return all(-most <= bound <= most for value in values for bound in bounds_of(value))


@irdl_op_definition
class SizesOp(GraphOp):
    """Sizes as integers, or as floats that represent them exactly, in row-major order.

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
        element = self.type.element_type
        if is_float(element) and not are_exact(self.values.extents, numpy_dtype(element)):
            raise VerifyException(f"{element} does not represent all values of the sizes")
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
        values = np.array(self.values.extents, np.int64).reshape(self.shape)
        return values.astype(numpy_dtype(self.type.element_type))

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
