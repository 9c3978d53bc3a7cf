"""Inverses of square matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.irdl import irdl_op_definition

from tcopt.dialects.graph.core.types import AnyTensor, Array, element_type, tensor
from tcopt.dialects.graph.linalg.square_matrices import SquareMatricesOp, exchange_rows, find_pivot
from tcopt.dialects.loop.writer import Buffer, KernelWriter


@irdl_op_definition
class InverseOp(SquareMatricesOp):
    """Invert each matrix of x [batch, n, n] by Gauss-Jordan elimination with row pivoting.

    The inverse of a singular matrix has elements that are infinite or NaN.
    """

    name = "graph.inverse"

    def infer(self) -> Sequence[AnyTensor]:
        """Return x's type."""
        return (tensor(self.checked_shape(), element_type(self.x)),)

    def compute_all(self, x: Array) -> Sequence[Array]:
        """Evaluate with numpy, matrix by matrix, so that a singular one does not affect the
        others."""
        result = np.full_like(x, np.nan)
        for n, matrix in enumerate(x):
            try:
                result[n] = np.linalg.inv(matrix)
            except np.linalg.LinAlgError:
                continue
        return (result,)

    def write(self, k: KernelWriter, *buffers: Buffer) -> None:
        """Write a loop over independent matrices; the right half of each row starts as the
        identity."""
        x, result = buffers
        batch, extent, _ = x.shape
        element = element_type(self.x)
        wide = self.wide
        with k.loop(batch, parallel=True) as n:
            rows = k.workspace((extent, 2 * extent), wide)
            zero, one = k.variable(wide, 0), k.variable(wide, 1)
            with k.loops((extent, extent)) as (r, c):
                rows[r, c] = x[n, r, c].cast(wide)
                rows[r, c + extent] = zero.get()
            with k.loop(extent) as r:
                rows[r, r + extent] = one.get()
            with k.loop(extent) as i:
                pivot = find_pivot(k, rows, i).get()
                with k.when(pivot.differs(i)):
                    exchange_rows(k, rows, i, pivot)
                diagonal = rows[i, i]
                with k.loop(2 * extent) as c:
                    rows[i, c] = rows[i, c] / diagonal
                with k.loop(extent) as r, k.when(r.differs(i)):
                    factor = rows[r, i]
                    with k.loop(2 * extent) as c:
                        rows[r, c] = rows[r, c] - factor * rows[i, c]
            with k.loops((extent, extent)) as (r, c):
                result[n, r, c] = rows[r, c + extent].cast(element)
