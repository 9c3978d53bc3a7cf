"""Packing of computed right operands into panels for the target's dot products."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.contraction.matmul import FEW_ROWS
from tcopt.dialects.graph.core.constant import ConstantValues
from tcopt.dialects.graph.core.forms import CONTRACTION, form_declined
from tcopt.dialects.graph.core.types import element_type
from tcopt.dialects.intrinsics import Intrinsic, find_dot
from tcopt.dialects.target import TargetFacts
from tcopt.passes.graph.packing.panels import panel_form
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.ir.pure_values import insert_once
from tcopt.support.machines.matmul_tiles import best_tile
from tcopt.support.remarks import remark


@dataclass(frozen=True)
class ComputedPanels:
    """Panel format of a right operand: `width` columns, with terms grouped for a dot product."""

    width: int
    dot: Intrinsic

    @property
    def group(self) -> int:
        """Number of adjacent rows in a panel: the terms that one dot product sums."""
        return self.dot.operands[1].shape[0]


def computed_panels(
    op: ContractionOp,
    factors: tuple[Attribute, Attribute],
    target: TargetFacts,
    constants: ConstantValues,
) -> ComputedPanels | None:
    """Choose the panels for a contraction whose right operand is computed; None if it has no such
    form, or the target has no dot product for it.

    Args:
        factors: element types of the operands.
        constants: values that are evaluated at compile time.
    """
    units = target.vectors
    form = panel_form(op)
    if units is None or form is None or op.weights in constants:
        return None
    dot = find_dot(target.capabilities, factors, op.sum_element())
    rows, columns, depth = map(upper_bound, form.extents)
    lanes = units.lanes()
    if dot is None or rows <= FEW_ROWS or columns < lanes // 2 or 0 in op.shape:
        return None
    if not depth or form_declined(CONTRACTION, op, target):
        return None
    return ComputedPanels(lanes * best_tile(rows, columns, lanes, units).vectors, dot)


@dataclass
class PackComputedMatmul(RewritePattern):
    """Pack a computed right operand into panels for a dot product of the target.

        %y = graph.matmul %x, %w {result_element = i32} : tensor<12x128x128xi32>
    ->
        %p = graph.layout_transform %w {src = "AKN", dst = "ANK32n2k"} : tensor<12x4x32x32x2xi16>
        %y = graph.packed_matmul %x, %p {batch = 1, columns = 128, result_element = i32} : ...

    Each element is moved once and read for every row of the product, so few rows do not pay for it.

    Attributes:
        target: target with the dot product.
        name: name of the pass, for remarks.
        constants: values that are evaluated at compile time.
    """

    target: TargetFacts
    name: str
    constants: ConstantValues

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        factors = element_type(op.operands[0]), element_type(op.weights)
        panels = computed_panels(op, factors, self.target, self.constants)
        form = panel_form(op)
        if panels is None or form is None:
            return
        new = form.packed_at_run_time(
            panels.width, panels.group, lambda each: insert_once(rewriter, each)
        )
        if new is None:
            return
        remark(self.name, op, f"computed panels of {panels.width} columns, for {panels.dot.name}")
        rewriter.replace(op, new)
