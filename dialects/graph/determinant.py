"""Determinants of square matrices."""

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
class DeterminantOp(OpaqueOp):
    """The determinant of each matrix of x [batch, n, n], by elimination with row pivoting."""

    name = "graph.determinant"

    x = operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(self, x: SSAValue | Operation):
        super().__init__([x])

    def infer(self) -> Sequence[AnyTensor]:
        """[batch]."""
        shape = shape_of(self.x)
        if len(shape) != 3 or shape[1] != shape[2] or not is_float(element_type(self.x)):
            raise VerifyException(f"{self.x.type} does not hold square matrices of floats")
        return (tensor(shape[:1], element_type(self.x)),)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """The value by numpy."""
        return (np.linalg.det(x),)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Matrices are independent."""
        x, result = buffers
        batch, extent, _ = x.shape
        element = element_type(self.x)
        wide = f32 if is_half(element) else element
        with k.loop(batch, parallel=True) as n:
            rows = k.workspace((extent, extent), wide)
            with k.loops((extent, extent)) as place:
                rows[place] = x[[n, *place]].cast(wide)
            product, pivot = k.variable(wide, 1), k.variable(INDEX, 0)
            with k.loop(extent) as i:
                pivot.set(i)
                with k.loop(extent) as r:
                    best = rows[pivot.get(), i]
                    square = rows[r, i] * rows[r, i]
                    with k.when((r > i) & (square > best * best)):
                        pivot.set(r)
                with k.when(pivot.get().differs(i)):
                    product.set(product.get() * -1)
                    with k.loop(extent) as c:
                        own, other = rows[i, c], rows[pivot.get(), c]
                        rows[i, c] = other
                        rows[pivot.get(), c] = own
                diagonal = rows[i, i]
                product.set(product.get() * diagonal)
                with k.loop(extent) as r, k.when((r > i) & diagonal.differs(0)):
                    factor = rows[r, i] / diagonal
                    with k.loop(extent) as c:
                        rows[r, c] = rows[r, c] - factor * rows[i, c]
            result[n] = product.get().cast(element)
