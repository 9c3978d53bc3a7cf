"""Arithmetic that passes rewrite or that has forms on integers, comparison and selection."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import ComparePredicate, ComparePredicateAttr, flag
from tcopt.dialects.graph.core.constant import uniform_value
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    broadcast_shapes,
    element_type,
    is_float,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.elementwise.base import (
    BinaryOp,
    Domain,
    ElementwiseOp,
    same_element_type,
)
from tcopt.dialects.graph.elementwise.numerics import divide
from tcopt.dialects.graph.elementwise.of_sizes import (
    SIZE_COMPARISONS,
    chosen,
    truncated_quotient,
)


@irdl_op_definition
class AddOp(BinaryOp):
    """lhs + rhs."""

    name = "graph.add"
    OF_SIZES: ClassVar[Callable[..., Any] | None] = operator.add
    NEUTRAL_LHS: ClassVar[float | None] = 0
    NEUTRAL_RHS: ClassVar[float | None] = 0

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return lhs + rhs


@irdl_op_definition
class SubOp(BinaryOp):
    """lhs - rhs."""

    name = "graph.sub"
    OF_SIZES: ClassVar[Callable[..., Any] | None] = operator.sub
    NEUTRAL_RHS: ClassVar[float | None] = 0

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return lhs - rhs


@irdl_op_definition
class MulOp(BinaryOp):
    """lhs * rhs."""

    name = "graph.mul"
    OF_SIZES: ClassVar[Callable[..., Any] | None] = operator.mul
    NEUTRAL_LHS: ClassVar[float | None] = 1
    NEUTRAL_RHS: ClassVar[float | None] = 1

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return lhs * rhs


@irdl_op_definition
class DivOp(BinaryOp):
    """lhs / rhs; integers round towards zero."""

    name = "graph.div"
    OF_SIZES: ClassVar[Callable[..., Any] | None] = truncated_quotient
    NEUTRAL_RHS: ClassVar[float | None] = 1

    def compute_sizes(self, *arrays: Array) -> Array | None:
        """Return the quotients of sizes; None for floats if one of them has a remainder."""
        lhs, rhs = np.broadcast_arrays(*arrays)
        if is_float(self.type.element_type) and any(
            b == 0 or a % b != 0 for a, b in zip(lhs.flat, rhs.flat, strict=True)
        ):
            return None
        return super().compute_sizes(*arrays)

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return divide(lhs, rhs)


@irdl_op_definition
class ModOp(BinaryOp):
    """Remainder with the sign of the divisor; with `fmod`, with the sign of the dividend, like C's
    fmod."""

    name = "graph.mod"
    STEPS: ClassVar[bool] = True

    fmod = opt_prop_def(UnitAttr)

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation, *, fmod: bool = False):
        GraphOp.__init__(self, [lhs, rhs], {"fmod": flag(fmod)})

    def compute_sizes(self, *arrays: Array) -> Array | None:
        """Evaluate remainders with the sign of the divisor."""
        if self.fmod:
            return None
        return np.asarray(np.frompyfunc(operator.mod, 2, 1)(*arrays), object)

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return np.fmod(lhs, rhs) if self.fmod else np.mod(lhs, rhs)


_PYTHON_COMPARISONS: dict[ComparePredicate, Callable[[Any, Any], Any]] = {
    ComparePredicate.EQ: operator.eq,
    ComparePredicate.NE: operator.ne,
    ComparePredicate.LT: operator.lt,
    ComparePredicate.LE: operator.le,
    ComparePredicate.GT: operator.gt,
    ComparePredicate.GE: operator.ge,
}


@irdl_op_definition
class CompareOp(BinaryOp):
    """Elementwise comparison with an i1 result."""

    name = "graph.compare"
    EXACT: ClassVar[bool] = True
    DOMAIN: ClassVar[Domain] = Domain.ANY

    predicate = prop_def(ComparePredicateAttr)

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation, *, predicate: str):
        kind = ComparePredicateAttr(ComparePredicate(predicate))
        GraphOp.__init__(self, [lhs, rhs], {"predicate": kind})

    def infer(self) -> Sequence[AnyTensor]:
        """Return the broadcast shape with i1 elements."""
        same_element_type(self.lhs, self.rhs)
        return (tensor(broadcast_shapes(shape_of(self.lhs), shape_of(self.rhs)), i1),)

    def compute_sizes(self, *arrays: Array) -> Array | None:
        """Compare sizes whose ranges decide."""
        compare = SIZE_COMPARISONS[self.predicate.data]
        return np.asarray(np.frompyfunc(compare, 2, 1)(*arrays), object)

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return _PYTHON_COMPARISONS[self.predicate.data](lhs, rhs)


@irdl_op_definition
class SelectOp(ElementwiseOp):
    """lhs where the condition holds, rhs elsewhere; all three broadcast."""

    name = "graph.select"
    OF_SIZES: ClassVar[Callable[..., Any] | None] = chosen
    EXACT: ClassVar[bool] = True
    DOMAIN: ClassVar[Domain] = Domain.ANY

    condition = operand_def(TensorType)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    def __init__(
        self,
        condition: SSAValue | Operation,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
    ):
        GraphOp.__init__(self, [condition, lhs, rhs])

    def infer(self) -> Sequence[AnyTensor]:
        """Return the broadcast shape with the values' element type."""
        if element_type(self.condition) != i1:
            raise VerifyException(f"condition must be i1, got {element_type(self.condition)}")
        element = same_element_type(self.lhs, self.rhs)
        shape = broadcast_shapes(*(shape_of(operand) for operand in self.operands))
        return (tensor(shape, element),)

    def unchanged(self) -> SSAValue | None:
        """Return the selected operand, if the condition is a uniform literal."""
        chosen = uniform_value(self.condition)
        return None if chosen is None else self.lhs if chosen else self.rhs

    def compute(self, condition: Array, lhs: Array, rhs: Array) -> Array:
        """Return the result for arrays or te expressions."""
        return np.where(condition, lhs, rhs)
