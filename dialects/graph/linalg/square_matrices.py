"""Operators on square matrices that are computed by elimination."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import element_type, is_float, is_half, shape_of
from tcopt.dialects.loop.writer import Buffer, KernelWriter, Variable
from tcopt.dialects.loop.writer_scalar import INDEX, Scalar


class SquareMatricesOp(OpaqueOp, ABC):
    """Base class of ops on each matrix of x [batch, n, n]."""

    x = operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation):
        super().__init__([x])

    def checked_shape(self) -> tuple[int, ...]:
        """Return the shape of x.

        Raises:
            VerifyException: x does not hold square matrices of floats.
        """
        shape = shape_of(self.x)
        if len(shape) != 3 or shape[1] != shape[2] or not is_float(element_type(self.x)):
            raise VerifyException(f"{self.x.type} does not hold square matrices of floats")
        return shape

    @property
    def wide(self) -> Attribute:
        """Element type in which matrices are eliminated: f32 for 16-bit floats."""
        element = element_type(self.x)
        return f32 if is_half(element) else element


def find_pivot(k: KernelWriter, rows: Buffer, i: Scalar) -> Variable:
    """Return the row, starting at `i`, whose element in column `i` has the largest magnitude."""
    pivot = k.variable(INDEX, 0)
    pivot.set(i)
    with k.loop(rows.shape[0]) as r:
        # Squares would overflow, or underflow to zero, for elements of large or small magnitude.
        larger = _magnitude(rows[r, i]) > _magnitude(rows[pivot.get(), i])
        with k.when((r > i) & larger):
            pivot.set(r)
    return pivot


def exchange_rows(k: KernelWriter, rows: Buffer, a: Scalar, b: Scalar) -> None:
    """Exchange two rows."""
    with k.loop(rows.shape[1]) as c:
        first, second = rows[a, c], rows[b, c]
        rows[a, c] = second
        rows[b, c] = first


def _magnitude(value: Scalar) -> Scalar:
    return value.maximum(0 - value)
