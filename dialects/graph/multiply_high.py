"""The high halves of products, as units that scale integers compute them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.irdl import irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.elementwise import BinaryOp, Domain
from tcopt.dialects.graph.types import AnyTensor, Array, element_type
from tcopt.dialects.te import api as te
from tcopt.dialects.te.products import BITS, HALF, LARGEST, multiply_high


@irdl_op_definition
class MultiplyHighOp(BinaryOp):
    """(lhs * rhs + 2**30) / 2**31, rounded down, in 32 bits: lhs times a fraction of one, rounded
    to the nearest; 2**31 - 1 for the square of -2**31.

    gemmlowp and ARM call it the rounding doubling high multiplication.
    """

    name = "graph.multiply_high"
    DOMAIN: ClassVar[Domain] = Domain.INTEGRAL

    def infer(self) -> tuple[AnyTensor, ...]:
        """The broadcast shape in i32."""
        if element_type(self.lhs) != i32:
            raise VerifyException(f"multiplies integers of 32 bits, not {element_type(self.lhs)}")
        return (*super().infer(),)

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """The value by numpy."""
        product = lhs.astype(np.int64) * rhs.astype(np.int64)
        return np.minimum((product + HALF) >> BITS, LARGEST).astype(np.int32)

    def expression(self, lhs: te.Expr, rhs: te.Expr) -> te.Expr:
        """The value of one element."""
        return multiply_high(lhs, rhs)
