"""Rounding of the operands of contractions to 16 bits."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.constant import ConstantValues
from tcopt.dialects.graph.core.types import element_type
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.intrinsics import added_at_once
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.passes.graph.packing.computed_panels import computed_panels
from tcopt.passes.graph.packing.panels import grouped_form, panel_form
from tcopt.support.errors import PassFailedError
from tcopt.support.ir.pure_values import insert_once
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.remarks import remark

NARROW_TYPES: dict[str, Attribute] = {"bf16": bf16, "f16": f16}
"""Element types to which operands can be rounded, by name."""

LEAST_EXTENT = 32
"""Minimum rows and columns of a product of two computed matrices for rounding both to pay off: each
element is moved once more, and saves half of its multiply-adds."""


@dataclass
class RoundOperands(RewritePattern):
    """Round both operands of a contraction, and accumulate in f32.

        %y = graph.matmul %x, %w : tensor<4x10xf32>
    ->
        %a = graph.cast %x : tensor<4x64xbf16>
        %b = graph.cast %w : tensor<64x10xbf16>
        %y = graph.matmul %a, %b {result_element = f32} : tensor<4x10xf32>

    Attributes:
        element: type to which the operands are rounded.
        target: target whose dot products decide whether rounding pays off.
        constants: values that are evaluated at compile time.
    """

    element: Attribute
    target: TargetFacts | None
    constants: ConstantValues = field(default_factory=ConstantValues)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        name = LowerPrecisionPass.name
        if any(element_type(value) != f32 for value in (*op.operands, *op.results)):
            remark(name, op, "its operands are not all f32", missed=True)
            return
        if op.weights not in self.constants:
            if not self._pays(op):
                remark(name, op, "no operand is a constant weight", missed=True)
                return
        elif self.group > 1 and grouped_form(op, self.group) is None:
            text = f"it has no form for dot products of {self.group} terms"
            remark(name, op, text, missed=True)
            return
        casts = [insert_once(rewriter, CastOp(value, self.element)) for value in op.operands]
        remark(name, op, f"products of {self.element}, summed in f32")
        rewriter.replace(op, op.on_operands(casts))

    @property
    def group(self) -> int:
        """Number of terms that a dot product of the target sums; 1 without one."""
        if self.target is None or self.target.vectors is None:
            return 1
        return added_at_once(self.target.capabilities, (self.element, self.element), f32)

    def _pays(self, op: ContractionOp) -> bool:
        """Whether the dot products of rounded matrices save more than packing them costs."""
        form = panel_form(op)
        if self.target is None or form is None:
            return False
        rows, columns, _ = form.extents
        factors = (self.element, self.element)
        panels = computed_panels(op, factors, self.target, self.constants)
        return panels is not None and min(rows, columns) >= LEAST_EXTENT


@dataclass(frozen=True)
class LowerPrecisionPass(ModulePass):
    """Round the operands of contractions to 16 bits; sums stay f32.

    Both operands of such an op are cast, each value once, and its result keeps its type: products
    are summed in f32, and users read the sums unrounded. Constants are rounded at compile time by
    `fold-constants`. Products of two computed matrices, as in attention, are rounded if the target
    has a dot product for the type and both matrices are large enough to pay for packing them. On
    such targets, contractions without a form for the dot product, such as depthwise convolutions,
    are not rounded, as they would be widened again. Other ops are not changed.

        %w = graph.constant @w : tensor<64x10xf32>
        %y = graph.matmul %x, %w : tensor<4x10xf32>
        %z = graph.relu %y : tensor<4x10xf32>
    ->
        %w = graph.constant @w : tensor<64x10xf32>
        %a = graph.cast %x : tensor<4x64xbf16>
        %b = graph.cast %w : tensor<64x10xbf16>
        %y = graph.matmul %a, %b {result_element = f32} : tensor<4x10xf32>
        %z = graph.relu %y : tensor<4x10xf32>

    Options: `to`, the operands' type, `bf16` or `f16`.
    """

    name = "lower-precision"

    to: str = "bf16"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.to not in NARROW_TYPES:
            known = ", ".join(NARROW_TYPES)
            raise PassFailedError(f"lower-precision: to = '{self.to}' is none of {known}")
        rewrite(op, [RoundOperands(NARROW_TYPES[self.to], target_facts_of(op))], once=True)
