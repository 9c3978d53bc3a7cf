"""Matrix multiplication with numpy batch broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.contraction.matrix_stages import broadcast_indices, matrix_stage
from tcopt.dialects.graph.core.attributes import FusionKind, flag
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import LinearWeight
from tcopt.dialects.graph.core.stages import Indices, narrow
from tcopt.dialects.graph.core.types import AnyTensor, Array, broadcast_shapes, shape_of, tensor
from tcopt.dialects.graph.movement.shape import ReshapeOp, TransposeOp
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import upper_bound

FEW_ROWS = 3
"""Maximum number of rows of the left operand for which a non-constant right operand is not
transposed: reading, writing and reading it again takes three times as long as dot products along
its rows."""


@irdl_op_definition
class MatmulOp(ContractionOp):
    """lhs [..., M, K] times rhs [..., K, N]; leading dimensions broadcast.

    `transpose_a` and `transpose_b` say that an operand stores its last two axes swapped.
    """

    name = "graph.matmul"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    transpose_a = opt_prop_def(UnitAttr)
    transpose_b = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        result_element: Attribute | None = None,
    ):
        properties = {
            "transpose_a": flag(transpose_a),
            "transpose_b": flag(transpose_b),
            "result_element": result_element,
        }
        super().__init__([lhs, rhs], properties)

    @property
    def is_by_one_matrix(self) -> bool:
        """Whether each row of the left operand, its last axis, is multiplied by one matrix."""
        return self.transpose_a is None and len(shape_of(self.rhs)) == 2

    @property
    def extents(self) -> tuple[int, int, int]:
        """Extents M, N and K of the product."""
        *_, m, k = shape_of(self.lhs)
        *_, k_rhs, n = shape_of(self.rhs)
        if self.transpose_a is not None:
            m, k = k, m
        if self.transpose_b is not None:
            k_rhs, n = n, k_rhs
        if k != k_rhs:
            raise VerifyException(f"contracted extents differ: {k} in lhs, {k_rhs} in rhs")
        return m, n, k

    @property
    def multiplied_rows(self) -> int | None:
        """Return the left operand, unless an operand is stored by columns."""
        return 0 if self.transpose_a is None and self.transpose_b is None else None

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [broadcast batch..., M, N]."""
        lhs, rhs = shape_of(self.lhs), shape_of(self.rhs)
        if min(len(lhs), len(rhs)) < 2:
            raise VerifyException("operands must have at least two dimensions")
        m, n, _ = self.extents
        batch = broadcast_shapes(lhs[:-2], rhs[:-2])
        return (tensor((*batch, m, n), self.sum_element()),)

    def work(self) -> int:
        """Return the operation count: two operations for each product."""
        return 2 * math.prod(self.shape) * self.extents[2]

    def linear_weight(self) -> LinearWeight | None:
        """Return the right operand, if it is a matrix: the result is linear in it, by column."""
        rhs = shape_of(self.rhs)
        if len(rhs) != 2:
            return None
        axis = 0 if self.transpose_b is not None else 1
        return LinearWeight(operand=1, axis=axis, channel=len(self.shape) - 1)

    def decompose(self) -> Sequence[Operation] | None:
        """Choose the storage of the right operand that suits the number of rows.

        With many rows, a right operand stored by columns is transposed first, at compile time if it
        is constant, so that vectors run along rows of both operands. Few rows use each element too
        rarely to pay for a copy: they read the operand as it is stored, and an existing transpose
        is removed. A single column is reshaped to be stored by columns, so that terms of the sum
        are contiguous.
        """
        if self._is_column():
            return self._by_columns()
        # Few rows for all values of a size.
        rows = upper_bound(self.extents[0])
        few = rows <= FEW_ROWS and not isinstance(self.rhs.owner, ConstantOp)
        if few == (self.transpose_b is not None):
            return None
        swap_lhs, element = self.transpose_a is not None, self.result_element
        if not few:
            swapped = TransposeOp(self.rhs, _swap_last(range(len(shape_of(self.rhs)))))
            product = MatmulOp(self.lhs, swapped, transpose_a=swap_lhs, result_element=element)
            return (swapped, product)
        inner = self.rhs.owner
        if not isinstance(inner, TransposeOp) or isinstance(inner.x.owner, ConstantOp):
            return None
        perm = inner.perm.get_values()
        if perm[-1] == len(perm) - 1 or perm[-2] != len(perm) - 1:
            return None
        stored = TransposeOp(inner.x, _swap_last(perm))
        product = MatmulOp(
            self.lhs, stored, transpose_a=swap_lhs, transpose_b=True, result_element=element
        )
        return (stored, product)

    def _is_column(self) -> bool:
        """Whether the right operand is a vector, multiplied by rows of the left one."""
        return self.extents[1] == 1 and self.transpose_a is None

    def _by_columns(self) -> Sequence[Operation] | None:
        if self.transpose_b is not None:
            return None
        *batch, depth, _ = shape_of(self.rhs)
        row = ReshapeOp(self.rhs, (*batch, 1, depth))
        element = self.result_element
        return (row, MatmulOp(self.lhs, row, transpose_b=True, result_element=element))

    def compute(self, lhs: Array, rhs: Array) -> Array:
        """Evaluate the op with numpy."""
        if self.transpose_a is not None:
            lhs = np.swapaxes(lhs, -1, -2)
        if self.transpose_b is not None:
            rhs = np.swapaxes(rhs, -1, -2)
        return np.matmul(lhs, rhs)

    def tensor_expression(self, lhs: te.Tensor, rhs: te.Tensor) -> te.Tensor:
        """Return one reduction over k."""
        extent = self.extents[2]
        swap_lhs, swap_rhs = self.transpose_a is not None, self.transpose_b is not None
        k = te.reduce_axis(extent, "k")

        def read(x: te.Tensor, batch: Indices, row: te.Axis, column: te.Axis) -> te.Expr:
            return self.widened(x[(*broadcast_indices(batch, x.shape[:-2]), row, column)])

        def body(*axes: te.Axis) -> Any:
            *batch, i, j = axes
            left = read(lhs, batch, k, i) if swap_lhs else read(lhs, batch, i, k)
            right = read(rhs, batch, j, k) if swap_rhs else read(rhs, batch, k, j)
            return te.sum(left * right, axis=k)

        return narrow(matrix_stage(self.shape, body), self.type.element_type)


def _swap_last(axes: Sequence[int]) -> list[int]:
    """Return the axes with the last two swapped."""
    *lead, row, column = axes
    return [*lead, column, row]
