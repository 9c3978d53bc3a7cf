"""Matrix product with a right operand stored in panels, the form that streams through registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.attributes import FusionKind, Int, flag
from tcopt.dialects.graph.contraction import ContractionOp
from tcopt.dialects.graph.matmul import matrix_stage
from tcopt.dialects.graph.stages import narrow, widen
from tcopt.dialects.graph.types import AnyTensor, Array, shape_of, tensor
from tcopt.dialects.te import api as te


@irdl_op_definition
class PackedMatmulOp(ContractionOp):
    """lhs [..., M, K] times a matrix [K, N] stored as panels [ceil(N / b), K, b].

    Panel p holds columns p * b to p * b + b, row after row, so that a kernel that computes
    b columns reads its weights as one stream. Columns from `columns` = N on are padding.
    `transpose_a` says that lhs is stored as [..., K, M].
    """

    name = "graph.packed_matmul"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    lhs = operand_def(TensorType)
    panels = operand_def(TensorType)
    columns = prop_def(Int)
    transpose_a = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        lhs: SSAValue | Operation,
        panels: SSAValue | Operation,
        *,
        columns: int | None = None,
        transpose_a: bool = False,
        result_element: Attribute | None = None,
    ):
        """`columns` is N, by default what the panels hold."""
        value = SSAValue.get(panels)
        if columns is None:
            count, _, width = shape_of(value)
            columns = count * width
        properties = {
            "columns": IntegerAttr(columns, i64),
            "transpose_a": flag(transpose_a),
            "result_element": result_element,
        }
        super().__init__([lhs, value], properties)

    @property
    def rows_and_depth(self) -> tuple[int, int]:
        """M and K."""
        *_, m, k = shape_of(self.lhs)
        return (m, k) if self.transpose_a is None else (k, m)

    def infer(self) -> Sequence[AnyTensor]:
        """[..., M, N]."""
        lhs, panels = shape_of(self.lhs), shape_of(self.panels)
        if len(lhs) < 2 or len(panels) != 3:
            raise VerifyException("operands should be [..., M, K] and [panels, K, b]")
        rows, depth = self.rows_and_depth
        if depth != panels[1]:
            raise VerifyException(
                f"contracted extents differ: {depth} in lhs, {panels[1]} in panels"
            )
        columns = self.columns.value.data
        if math.ceil(columns / panels[2]) != panels[0]:
            raise VerifyException(
                f"{panels[0]} panels of {panels[2]} do not hold {columns} columns"
            )
        return (tensor((*lhs[:-2], rows, columns), self.sum_element()),)

    def work(self) -> int:
        """Two operations for each product."""
        return 2 * math.prod(self.shape) * self.rows_and_depth[1]

    def compute(self, lhs: Array, panels: Array) -> Array:
        """The value by numpy."""
        lhs = lhs if self.transpose_a is None else np.swapaxes(lhs, -1, -2)
        matrix = np.moveaxis(panels, 0, 1).reshape(panels.shape[1], -1)
        return np.matmul(lhs, matrix[:, : self.shape[-1]])

    def tensor_expression(self, lhs: te.Tensor, panels: te.Tensor) -> te.Tensor:
        """One reduction over k for whole panels; a second stage leaves the padding out."""
        count, extent, width = panels.shape
        k = te.reduce_axis(extent, "k")

        def body(*axes: te.Axis) -> Any:
            *lead, i, j = axes
            left = lhs[(*lead, i, k) if self.transpose_a is None else (*lead, k, i)]
            right = panels[(j // width, k, j % width)]
            return te.sum(widen(left) * widen(right), axis=k)

        product = matrix_stage((*self.shape[:-1], count * width), body)
        if count * width != self.shape[-1]:
            whole = product

            def columns(*axes: te.Axis) -> te.Expr:
                return whole[axes]

            product = te.compute(self.shape, columns, name="columns")
        return narrow(product, self.type.element_type)
