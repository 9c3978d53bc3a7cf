"""Determinants of square matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.irdl import irdl_op_definition

from tcopt.dialects.graph.core.types import AnyTensor, Array, element_type, tensor
from tcopt.dialects.graph.linalg.square_matrices import SquareMatricesOp, exchange_rows, find_pivot
from tcopt.dialects.loop.writer import Buffer, KernelWriter


@irdl_op_definition
class DeterminantOp(SquareMatricesOp):
    """Determinant of each matrix of x [batch, n, n], by elimination with row pivoting."""

    name = "graph.determinant"

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [batch]."""
        return (tensor(self.checked_shape()[:1], element_type(self.x)),)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """Evaluate the op with numpy."""
        return (np.linalg.det(x),)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a loop over independent matrices."""
        x, result = buffers
        batch, extent, _ = x.shape
        element = element_type(self.x)
        wide = self.wide
        with k.loop(batch, parallel=True) as n:
            rows = k.workspace((extent, extent), wide)
            with k.loops((extent, extent)) as place:
                rows[place] = x[[n, *place]].cast(wide)
            product = k.variable(wide, 1)
            with k.loop(extent) as i:
                pivot = find_pivot(k, rows, i).get()
                with k.when(pivot.differs(i)):
                    product.set(product.get() * -1)
                    exchange_rows(k, rows, i, pivot)
                diagonal = rows[i, i]
                product.set(product.get() * diagonal)
                with k.loop(extent) as r, k.when((r > i) & diagonal.differs(0)):
                    factor = rows[r, i] / diagonal
                    with k.loop(extent) as c:
                        rows[r, c] = rows[r, c] - factor * rows[i, c]
            result[n] = product.get().cast(element)
