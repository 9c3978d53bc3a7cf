"""Conversions and float classification."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import Float8E8M0FNUType, TensorType, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    is_float,
    numpy_dtype,
    shape_of,
    tensor,
    type_of,
)
from tcopt.dialects.graph.elementwise.base import Domain, ElementwiseOp, UnaryOp
from tcopt.dialects.graph.elementwise.numerics import saturated
from tcopt.dialects.graph.elementwise.of_sizes import differs
from tcopt.dialects.te import api as te
from tcopt.support.data.dtypes import is_narrow


@irdl_op_definition
class CastOp(ElementwiseOp):
    """Convert elements to the result's element type.

    Floats are truncated and saturated to integers; a nan becomes 0. Floats become integers of less
    than 8 bits by keeping the low bits of a 32-bit integer. Anything becomes i1 by comparison with
    zero.
    """

    name = "graph.cast"
    EXACT: ClassVar[bool] = True

    x = operand_def(TensorType)

    def __init__(self, x: SSAValue | Operation, element: Attribute):
        value = SSAValue.get(x)
        GraphOp.__init__(self, [value], result_type=tensor(shape_of(value), element))

    def infer(self) -> Sequence[AnyTensor]:
        """Return the operand's shape with the result's element type."""
        numpy_dtype(self.type.element_type)
        if isinstance(self.type.element_type, Float8E8M0FNUType):
            raise VerifyException(
                "cannot cast to an exponent type: compute the exponent and bitcast it"
            )
        return (tensor(shape_of(self.x), self.type.element_type),)

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if it has the result's type."""
        return self.x

    def compute_sizes(self, *arrays: Array) -> Array | None:
        """Return numbers as they are, and whether they differ from 0 as i1."""
        (x,) = arrays
        if self.type.element_type != i1:
            return x
        return np.asarray(np.frompyfunc(lambda n: differs(n, 0), 1, 1)(x), object)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        source, target = type_of(self.x).element_type, self.type.element_type
        if is_narrow(source) and is_narrow(target):
            # numpy lacks some conversions between narrow types.
            x = x.astype(np.float32 if is_float(source) else np.int8)
        if is_float(source) and not is_float(target) and target != i1:
            x = saturated(x, np.dtype(np.int32) if is_narrow(target) else numpy_dtype(target))
            if is_narrow(target):
                x = x.astype(np.int8)
        return x.astype(numpy_dtype(target))

    def expression(self, x: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        if self.type.element_type == i1 and is_narrow(x.dtype):
            x = te.cast(x, f32)
        if self.type.element_type == i1 and x.dtype != i1:
            return te.logical_not(x == te.const(0, x.dtype))
        return te.cast(x, self.type.element_type)


class FloatTest(UnaryOp, ABC):
    """Base class of elementwise predicates on floats."""

    DOMAIN: ClassVar[Domain] = Domain.FLOAT

    def infer(self) -> Sequence[AnyTensor]:
        """Return the operand's shape with i1 elements."""
        self.check_domain(self.x)
        return (tensor(shape_of(self.x), i1),)


@irdl_op_definition
class IsNanOp(FloatTest):
    """Whether x is not a number."""

    name = "graph.isnan"
    EXACT: ClassVar[bool] = True

    def compute(self, x: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return x != x


@irdl_op_definition
class IsInfOp(FloatTest):
    """Whether x is infinite."""

    name = "graph.isinf"
    EXACT: ClassVar[bool] = True

    def compute(self, x: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return abs(x) == math.inf
