"""Inverses of square matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.opaque import OpaqueOp
from tcopt.dialects.graph.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    is_half,
    shape_of,
    tensor,
)
from tcopt.dialects.loop.writer import INDEX, Buffer, KernelWriter


@irdl_op_definition
class InverseOp(OpaqueOp):
    """The inverse of each matrix of x [batch, n, n], by Gauss-Jordan elimination with row pivoting.

    The inverse of a singular matrix has elements that are infinite or NaN.
    """

    name = "graph.inverse"

    x = operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation):
        super().__init__([x])

    def infer(self) -> Sequence[AnyTensor]:
        """x's type."""
        shape = shape_of(self.x)
        if len(shape) != 3 or shape[1] != shape[2] or not is_float(element_type(self.x)):
            raise VerifyException(f"{self.x.type} does not hold square matrices of floats")
        return (tensor(shape, element_type(self.x)),)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """The value by numpy, matrix by matrix: a singular one does not affect the others."""
        result = np.full_like(x, np.nan)
        for n, matrix in enumerate(x):
            try:
                result[n] = np.linalg.inv(matrix)
            except np.linalg.LinAlgError:
                continue
        return (result,)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Matrices are independent; the right half of each row starts as the identity."""
        x, result = buffers
        batch, extent, _ = x.shape
        element = element_type(self.x)
        wide = f32 if is_half(element) else element
        with k.loop(batch, parallel=True) as n:
            rows = k.workspace((extent, 2 * extent), wide)
            zero, one = k.variable(wide, 0), k.variable(wide, 1)
            with k.loops((extent, extent)) as (r, c):
                rows[r, c] = x[n, r, c].cast(wide)
                rows[r, c + extent] = zero.get()
            with k.loop(extent) as r:
                rows[r, r + extent] = one.get()
            pivot = k.variable(INDEX, 0)
            with k.loop(extent) as i:
                pivot.set(i)
                with k.loop(extent) as r:
                    best = rows[pivot.get(), i]
                    square = rows[r, i] * rows[r, i]
                    with k.when((r > i) & (square > best * best)):
                        pivot.set(r)
                with k.when(pivot.get().differs(i)), k.loop(2 * extent) as c:
                    own, other = rows[i, c], rows[pivot.get(), c]
                    rows[i, c] = other
                    rows[pivot.get(), c] = own
                diagonal = rows[i, i]
                with k.loop(2 * extent) as c:
                    rows[i, c] = rows[i, c] / diagonal
                with k.loop(extent) as r, k.when(r.differs(i)):
                    factor = rows[r, i]
                    with k.loop(2 * extent) as c:
                        rows[r, c] = rows[r, c] - factor * rows[i, c]
            with k.loops((extent, extent)) as (r, c):
                result[n, r, c] = rows[r, c + extent].cast(element)
