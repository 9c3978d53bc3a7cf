"""Packing of right operands of matrix products into panels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import FixedBitwidthType, ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.constant import ConstantValues
from tcopt.dialects.graph.core.forms import CONTRACTION, form_declined
from tcopt.dialects.graph.core.tuning import PANEL, tuned
from tcopt.dialects.graph.core.types import element_type, is_float, shape_of
from tcopt.dialects.graph.elementwise.quantize import is_quantized
from tcopt.dialects.intrinsics import byte_group
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.passes.graph.layout.channel_blocks import is_of_bytes
from tcopt.passes.graph.packing.computed_panels import PackComputedMatmul
from tcopt.passes.graph.packing.panels import PanelForm, panel_form
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.ir.pure_values import insert_once
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.machines.matmul_tiles import best_tile
from tcopt.support.remarks import remark


@dataclass
class PackMatmul(RewritePattern):
    """Pack the constant right operand of a product into panels.

        %y = graph.matmul %x, %w : tensor<128x100xf32>
    ->
        %p = graph.layout_transform %w {src = "KN", dst = "NK32n"} : tensor<4x768x32xf32>
        %y = graph.packed_matmul %x, %p {columns = 100} : tensor<128x100xf32>

    Attributes:
        target: target for which to choose panels; on one without vectors, only bytes are packed.
        constants: values that are evaluated at compile time.
    """

    target: TargetFacts | None
    constants: ConstantValues = field(default_factory=ConstantValues)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        form = panel_form(op)
        if form is None:
            return
        width = self.panel_width(op, form)
        if isinstance(width, str):
            remark(PackMatmulPass.name, op, width, missed=True)
            return
        remark(PackMatmulPass.name, op, f"weights in panels of {width} columns")
        *before, new = form.packed(width)
        for each in before:
            insert_once(rewriter, each)
        rewriter.replace(op, new)

    def panel_width(self, op: ContractionOp, form: PanelForm) -> int | str:
        """Return the number of columns of a panel, or the reason for not packing."""
        if op.weights not in self.constants:
            return "the right operand is not constant"
        element = element_type(op.weights)
        if len(shape_of(op.weights)) != 2 or not (is_float(element) or is_quantized(element)):
            return "the right operand is not a matrix of floats or narrow integers"
        if 0 in op.shape or 0 in shape_of(op.operands[0]):
            return "it has no elements"
        if (declined := form_declined(CONTRACTION, op, self.target)) is not None:
            return declined
        assert isinstance(element, FixedBitwidthType)
        _, columns, _ = form.extents
        units = None if self.target is None else self.target.vectors
        wanted = tuned(op, PANEL)
        if wanted == 0:
            return "no panels, as chosen"
        if units is None:
            return columns if is_of_bytes(op) else "its elements are not 8-bit integers"
        lanes = units.lanes(max(element.bitwidth, 32))
        if wanted is not None and wanted % lanes == 0 and wanted // lanes < units.registers - 1:
            return wanted
        if wanted is not None:
            text = f"no panels of {wanted} columns as chosen: not a multiple of {lanes} lanes"
            remark(PackMatmulPass.name, op, text, missed=True)
        if columns < lanes // 2:
            return f"{columns} columns fill less than half of a vector of {lanes}"
        # Panels suit the whole range of a size: those for many rows also serve few.
        rows = upper_bound(math.prod(op.shape[:-1]))
        return lanes * best_tile(rows, columns, lanes, units).vectors


@dataclass(frozen=True)
class PackMatmulPass(ModulePass):
    """Pack a constant right operand into panels as wide as the product's register tile.

    A kernel then reads its weights as one stream, whatever the matrix's width. Weights are
    reordered at compile time by `fold-constants`; columns that do not fill a panel are padded with
    zeros.

        %w = graph.constant @w : tensor<768x100xf32>
        %y = graph.matmul %x, %w : tensor<128x100xf32>
    ->
        %p = graph.layout_transform %w {src = "KN", dst = "NK32n"} : tensor<4x768x32xf32>
        %y = graph.packed_matmul %x, %p {columns = 100} : tensor<128x100xf32>

    A computed right operand is packed at run time if the target has vectors and a dot product for
    the types of both operands (narrow integers or bf16).

    On a target with byte dot products but no vectors, such as a GPU, only matrices of 8-bit
    integers are packed, into one panel, so that the terms of neighbouring columns are adjacent.
    """

    name = "pack-matmul"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        if target is None or not _has_panels(target):
            return
        constants = ConstantValues()
        computed = PackComputedMatmul(target, self.name, constants)
        rewrite(op, [PackMatmul(target, constants), computed])


def _has_panels(target: TargetFacts) -> bool:
    return target.vectors is not None or byte_group(target.capabilities) > 0
