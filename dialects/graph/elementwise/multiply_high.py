"""High halves of products, as used by units that scale integers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.irdl import irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.types import AnyTensor, Array, element_type
from tcopt.dialects.graph.elementwise.base import BinaryOp, Domain
from tcopt.dialects.te import api as te
from tcopt.dialects.te.products import BITS, HALF, LARGEST, multiply_high


@irdl_op_definition
class MultiplyHighOp(BinaryOp):
    """Multiply a 32-bit integer by a fixed-point fraction, rounded to nearest.

    The result is (lhs * rhs + 2**30) / 2**31, rounded down, in 32 bits; 2**31 - 1 for the square of
    -2**31. gemmlowp and ARM call it the rounding doubling high multiplication.
    """

    name = "graph.multiply_high"
    DOMAIN: ClassVar[Domain] = Domain.INTEGRAL

    def infer(self) -> tuple[AnyTensor, ...]:
        """Return the broadcast shape in i32."""
        if element_type(self.lhs) != i32:
            raise VerifyException(f"multiplies integers of 32 bits, not {element_type(self.lhs)}")
        return (*super().infer(),)

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        product = lhs.astype(np.int64) * rhs.astype(np.int64)
        return np.minimum((product + HALF) >> BITS, LARGEST).astype(np.int32)

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """Return the expression of one result element."""
        return multiply_high(lhs, rhs)
