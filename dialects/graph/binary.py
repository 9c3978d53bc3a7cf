"""Binary arithmetic, logic, comparison and selection, with numpy broadcasting."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import ComparePredicate, ComparePredicateAttr, flag
from tcopt.dialects.graph.constant import uniform_value
from tcopt.dialects.graph.elementwise import (
    BinaryOp,
    Domain,
    ElementwiseOp,
    same_element_type,
)
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.numerics import truncated_division
from tcopt.dialects.graph.types import (
    AnyTensor,
    Array,
    broadcast_shapes,
    element_type,
    is_float,
    shape_of,
    tensor,
)
from tcopt.dialects.te import api as te


@irdl_op_definition
class AddOp(BinaryOp):
    """lhs + rhs."""

    name = "graph.add"
    NEUTRAL_LHS: ClassVar[float | None] = 0
    NEUTRAL_RHS: ClassVar[float | None] = 0

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return lhs + rhs

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return lhs + rhs


@irdl_op_definition
class SubOp(BinaryOp):
    """lhs - rhs."""

    name = "graph.sub"
    NEUTRAL_RHS: ClassVar[float | None] = 0

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return lhs - rhs

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return lhs - rhs


@irdl_op_definition
class MulOp(BinaryOp):
    """lhs * rhs."""

    name = "graph.mul"
    NEUTRAL_LHS: ClassVar[float | None] = 1
    NEUTRAL_RHS: ClassVar[float | None] = 1

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return lhs * rhs

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return lhs * rhs


@irdl_op_definition
class DivOp(BinaryOp):
    """lhs / rhs; integers round towards zero."""

    name = "graph.div"
    NEUTRAL_RHS: ClassVar[float | None] = 1

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return truncated_division(lhs, rhs)

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return lhs / rhs


@irdl_op_definition
class PowOp(BinaryOp):
    """lhs to the power of rhs."""

    name = "graph.pow"
    NEUTRAL_RHS: ClassVar[float | None] = 1

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        if is_float(element_type(self.lhs)):
            return np.power(lhs, rhs)
        return np.power(lhs.astype(np.float64), rhs.astype(np.float64))

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.pow(lhs, rhs)


@irdl_op_definition
class ModOp(BinaryOp):
    """Remainder with the sign of the divisor, or with `fmod` that of the dividend, like C's
    fmod."""

    name = "graph.mod"
    STEPS: ClassVar[bool] = True

    fmod = opt_prop_def(UnitAttr)

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation, *, fmod: bool = False):
        GraphOp.__init__(self, [lhs, rhs], {"fmod": flag(fmod)})

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.fmod(lhs, rhs) if self.fmod else np.mod(lhs, rhs)

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.fmod(lhs, rhs) if self.fmod else lhs % rhs


@irdl_op_definition
class MaxOp(BinaryOp):
    """Maximum; nan propagates."""

    name = "graph.max"
    EXACT: ClassVar[bool] = True

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.maximum(lhs, rhs)

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.maximum(lhs, rhs)


@irdl_op_definition
class MinOp(BinaryOp):
    """Minimum; nan propagates."""

    name = "graph.min"
    EXACT: ClassVar[bool] = True

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.minimum(lhs, rhs)

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.minimum(lhs, rhs)


@irdl_op_definition
class AndOp(BinaryOp):
    """Logical and of i1, bitwise and of integers."""

    name = "graph.and"
    DOMAIN: ClassVar[Domain] = Domain.INTEGRAL

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return lhs & rhs

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return lhs & rhs


@irdl_op_definition
class OrOp(BinaryOp):
    """Logical or of i1, bitwise or of integers."""

    name = "graph.or"
    DOMAIN: ClassVar[Domain] = Domain.INTEGRAL

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return lhs | rhs

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return lhs | rhs


@irdl_op_definition
class XorOp(BinaryOp):
    """Logical exclusive or of i1, bitwise exclusive or of integers."""

    name = "graph.xor"
    DOMAIN: ClassVar[Domain] = Domain.INTEGRAL

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return lhs ^ rhs

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return lhs ^ rhs


@irdl_op_definition
class PreluOp(BinaryOp):
    """lhs where lhs >= 0, lhs * rhs (the slope) elsewhere."""

    name = "graph.prelu"

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.where(lhs >= 0, lhs, lhs * rhs)

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.select(lhs >= te.const(0, lhs.dtype), lhs, lhs * rhs)


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

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        return _PYTHON_COMPARISONS[self.predicate.data](lhs, rhs)

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return _PYTHON_COMPARISONS[self.predicate.data](lhs, rhs)


@irdl_op_definition
class SelectOp(ElementwiseOp):
    """lhs where the condition holds, rhs elsewhere; all three broadcast."""

    name = "graph.select"
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
        """Evaluate the op with numpy."""
        return np.where(condition, lhs, rhs)

    def expression(self, condition: te.Expr, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return te.select(condition, lhs, rhs)
