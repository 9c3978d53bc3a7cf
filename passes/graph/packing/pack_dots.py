"""Grouping of the terms of contractions for dot product instructions."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.constant import ConstantValues
from tcopt.dialects.graph.core.types import element_type
from tcopt.dialects.intrinsics import find_dot
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.passes.graph.packing.computed_panels import PackComputedMatmul
from tcopt.passes.graph.packing.panels import grouped_form
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.remarks import remark


@dataclass
class GroupTerms(RewritePattern):
    """Make the terms that a dot product of the target sums adjacent in the weights.

        %y = graph.packed_matmul %x, %p {columns = 100, result_element = f32} : ...
    ->
        %0 = graph.reshape %p : tensor<4x384x2x32xbf16>
        %1 = graph.transpose %0 {perm = [0, 1, 3, 2]} : tensor<4x384x32x2xbf16>
        %y = graph.packed_matmul %x, %1 {columns = 100, result_element = f32} : ...

    Attributes:
        target: target with the dot products.
        constants: values that are evaluated at compile time.
    """

    target: TargetFacts
    constants: ConstantValues

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ContractionOp, rewriter: PatternRewriter) -> None:
        if op.weights not in self.constants:
            return
        data, weights = (element_type(operand) for operand in op.operands)
        dot = find_dot(self.target.capabilities, (data, weights), op.sum_element())
        if dot is None:
            return
        (group,) = dot.operands[1].shape
        form = grouped_form(op, group)
        if form is None:
            text = f"it has no form for groups of {group} terms"
            remark(PackDotsPass.name, op, text, missed=True)
            return
        remark(PackDotsPass.name, op, f"terms in groups of {group}, for {dot.name}")
        rewriter.replace(op, form())


@dataclass(frozen=True)
class PackDotsPass(ModulePass):
    """Group the terms of contractions in the order that dot product instructions read them.

    A dot product instruction (`dialects/intrinsics/`) reads a group of terms of a row, which are
    adjacent in the data anyway, and for each lane the same terms of a column. Weights are reordered
    at compile time by `fold-constants`; a contraction whose depth is not a multiple of the group is
    padded with zeros. A computed right operand is packed at run time. A contraction without such a
    form, or without an instruction for its element types, is not changed.

        %p = graph.constant @p : tensor<4x768x32xbf16>
        %y = graph.packed_matmul %x, %p {columns = 100, result_element = f32} : ...
    ->
        %0 = graph.reshape %p : tensor<4x384x2x32xbf16>
        %1 = graph.transpose %0 {perm = [0, 1, 3, 2]} : tensor<4x384x32x2xbf16>
        %y = graph.packed_matmul %x, %1 {columns = 100, result_element = f32} : ...
    """

    name = "pack-dots"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        if target is not None:
            constants = ConstantValues()
            computed = PackComputedMatmul(target, self.name, constants)
            patterns = [GroupTerms(target, constants), computed]
            rewrite(op, patterns, once=True)
