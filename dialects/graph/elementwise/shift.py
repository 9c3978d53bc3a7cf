"""Shifts of integers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def

from tcopt.dialects.graph.core.attributes import flag
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array, bits_of, element_type, is_unsigned_int
from tcopt.dialects.graph.elementwise.base import BinaryOp, Domain
from tcopt.dialects.te import api as te
from tcopt.dialects.te.expr import Const


@irdl_op_definition
class ShiftLeftOp(BinaryOp):
    """lhs * 2**rhs, wrapped around; 0 if all bits are shifted out."""

    name = "graph.shift_left"
    DOMAIN: ClassVar[Domain] = Domain.INTEGRAL
    NEUTRAL_RHS: ClassVar[float | None] = 0

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        bits = bits_of(element_type(self.lhs))
        inside = (rhs >= 0) & (rhs < bits)
        return np.where(inside, np.left_shift(lhs, np.where(inside, rhs, 0).astype(lhs.dtype)), 0)

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        if _is_known(rhs):
            return te.shift_left(lhs, rhs)
        places, inside = _places(rhs)
        return te.select(inside, te.shift_left(lhs, places), te.const(0, lhs.dtype))


@irdl_op_definition
class ShiftRightOp(BinaryOp):
    """lhs / 2**rhs, rounded down: an arithmetic shift for signed integers.

    With `in_range`, every shift amount must be less than the number of bits.
    """

    name = "graph.shift_right"
    DOMAIN: ClassVar[Domain] = Domain.INTEGRAL
    NEUTRAL_RHS: ClassVar[float | None] = 0

    in_range = opt_prop_def(UnitAttr)

    def __init__(
        self, lhs: SSAValue | Operation, rhs: SSAValue | Operation, *, in_range: bool = False
    ):
        GraphOp.__init__(self, [lhs, rhs], {"in_range": flag(in_range)})

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        bits = bits_of(element_type(self.lhs))
        inside = (rhs >= 0) & (rhs < bits)
        shifted = np.right_shift(lhs, np.where(inside, rhs, 0).astype(lhs.dtype))
        return np.where(inside, shifted, np.where(lhs < 0, -1, 0).astype(lhs.dtype))

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        if self.in_range is not None or _is_known(rhs):
            return te.shift_right(lhs, rhs)
        places, inside = _places(rhs)
        shifted = te.shift_right(lhs, places)
        rest = te.const(0, lhs.dtype)
        if not is_unsigned_int(element_type(self.lhs)):
            rest = te.select(lhs < 0, te.const(-1, lhs.dtype), rest)
        return te.select(inside, shifted, rest)


def _is_known(rhs: te.Expr) -> bool:
    """Whether the shift amount is a constant less than the number of bits."""
    return isinstance(rhs, Const) and 0 <= rhs.value < bits_of(rhs.dtype)


def _places(rhs: te.Expr) -> tuple[te.Expr, te.Expr]:
    """Return a shift amount that is in range, and whether it is the original one."""
    bits = bits_of(rhs.dtype)
    inside = te.all(rhs >= 0, rhs < bits)
    return te.select(inside, rhs, te.const(0, rhs.dtype)), inside
