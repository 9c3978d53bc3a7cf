"""Matrix product whose right operand is packed into panels that stream through registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.contraction.matrix_stages import broadcast_indices, matrix_stage
from tcopt.dialects.graph.core.attributes import FusionKind, Int, flag
from tcopt.dialects.graph.core.forms import CONTRACTION
from tcopt.dialects.graph.core.stages import narrow
from tcopt.dialects.graph.core.types import AnyTensor, Array, broadcast_shapes, shape_of, tensor
from tcopt.dialects.te import api as te


@irdl_op_definition
class PackedMatmulOp(ContractionOp):
    """lhs [..., M, K] times a matrix [K, N] stored as panels [ceil(N / b), K, b].

    Panel p holds columns p * b to p * b + b in row-major order, so that a kernel that computes b
    columns reads its weights as one stream. Columns from `columns` = N are padding. With
    `transpose_a`, lhs is stored as [..., K, M]. Panels [ceil(N / b), K / g, b, g] interleave g
    rows, for instructions that add g products at once. With `batch` leading dimensions, the panels
    are those of a batch of matrices, which broadcasts with the batch of lhs.
    """

    name = "graph.packed_matmul"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE
    COUNTS_ON: ClassVar[str] = CONTRACTION

    lhs = operand_def(TensorType)
    panels = operand_def(TensorType)
    columns = prop_def(Int)
    batch = opt_prop_def(Int)
    transpose_a = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        lhs: SSAValue | Operation,
        panels: SSAValue | Operation,
        *,
        columns: int | None = None,
        batch: int = 0,
        transpose_a: bool = False,
        result_element: Attribute | None = None,
    ):
        """`columns` is N, by default the number of columns in the panels."""
        value = SSAValue.get(panels)
        if columns is None:
            count, _, width = shape_of(value)[batch : batch + 3]
            columns = count * width
        properties = {
            "columns": IntegerAttr(columns, i64),
            "batch": IntegerAttr(batch, i64) if batch else None,
            "transpose_a": flag(transpose_a),
            "result_element": result_element,
        }
        super().__init__([lhs, value], properties)

    @property
    def batch_rank(self) -> int:
        """Number of leading batch dimensions of the panels."""
        return 0 if self.batch is None else self.batch.value.data

    @property
    def panel_shape(self) -> tuple[int, ...]:
        """Shape of the panels of one matrix."""
        return shape_of(self.panels)[self.batch_rank :]

    @property
    def group(self) -> int:
        """Number of interleaved rows of the matrix, for dot-product instructions."""
        return self.panel_shape[3] if len(self.panel_shape) == 4 else 1

    @property
    def rows_and_depth(self) -> tuple[int, int]:
        """Extents M and K of the product."""
        *_, m, k = shape_of(self.lhs)
        return (m, k) if self.transpose_a is None else (k, m)

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [..., M, N]."""
        lhs, panels = shape_of(self.lhs), self.panel_shape
        if self.batch_rank < 0:
            raise VerifyException(f"batch = {self.batch_rank} is negative")
        if len(lhs) < 2 or len(panels) not in (3, 4):
            raise VerifyException("operands should be [..., M, K] and [panels, K, b]")
        rows, depth = self.rows_and_depth
        if depth != panels[1] * self.group:
            raise VerifyException(
                f"contracted extents differ: {depth} in lhs, {panels[1] * self.group} in panels"
            )
        columns = self.columns.value.data
        if math.ceil(columns / panels[2]) != panels[0]:
            raise VerifyException(
                f"{panels[0]} panels of {panels[2]} do not hold {columns} columns"
            )
        batch = broadcast_shapes(lhs[:-2], shape_of(self.panels)[: self.batch_rank])
        return (tensor((*batch, rows, columns), self.sum_element()),)

    def work(self) -> int:
        """Return the operation count: two operations for each product."""
        return 2 * math.prod(self.shape) * self.rows_and_depth[1]

    def compute(self, lhs: Array, panels: Array) -> Array:
        """Evaluate the op with numpy."""
        lhs = lhs if self.transpose_a is None else np.swapaxes(lhs, -1, -2)
        batch, (count, _, width) = panels.shape[: self.batch_rank], self.panel_shape[:3]
        if self.group > 1:
            panels = np.moveaxis(panels, -1, -2)
        depth = self.rows_and_depth[1]
        rows = np.moveaxis(panels.reshape(*batch, count, depth, width), -3, -2)
        matrix = rows.reshape(*batch, depth, count * width)
        return np.matmul(lhs, matrix[..., : self.shape[-1]])

    def tensor_expression(self, lhs: te.Tensor, panels: te.Tensor) -> te.Tensor:
        """Return one reduction over k for whole panels, and a second stage that drops the
        padding."""
        count, _, width = self.panel_shape[:3]
        group = self.group
        k = te.reduce_axis(self.rows_and_depth[1], "k")

        def body(*axes: te.Axis) -> Any:
            *lead, i, j = axes
            rows = broadcast_indices(lead, lhs.shape[:-2])
            left = lhs[(*rows, i, k) if self.transpose_a is None else (*rows, k, i)]
            one = broadcast_indices(lead, panels.shape[: self.batch_rank])
            if group > 1:
                right = panels[(*one, j // width, k // group, j % width, k % group)]
            else:
                right = panels[(*one, j // width, k, j % width)]
            return te.sum(self.widened(left) * self.widened(right), axis=k)

        product = matrix_stage((*self.shape[:-1], count * width), body)
        if count * width != self.shape[-1]:
            whole = product

            def columns(*axes: te.Axis) -> te.Expr:
                return whole[axes]

            product = te.compute(self.shape, columns, name="columns")
        return narrow(product, self.type.element_type)
