"""Splitting of long reductions into parts, by tuning choices."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.core.tuning import PARTS, PREFIX, tuned
from tcopt.dialects.graph.reduction.reduce import ReductionOp
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.remarks import remark


class SplitReduction(RewritePattern):
    """Split a reduction into the chosen number of parts.

        %y = graph.reduce %x {kind = sum, axes = [0], tune.parts = 4} : tensor<f32>
    ->
        %v = graph.reshape %x : tensor<4x16384xf32>
        %p = graph.reduce %v {kind = sum, axes = [1]} : tensor<4xf32>
        %y = graph.reduce %p {kind = sum, axes = [0]} : tensor<f32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReductionOp, rewriter: PatternRewriter) -> None:
        count = tuned(op, PARTS)
        if count is None:
            return
        # The replacement is not split again.
        del op.attributes[PREFIX + PARTS]
        rewriter.notify_op_modified(op)
        if count <= 1:
            return
        parts = op.in_parts(count)
        if parts is None:
            remark(SplitReductionsPass.name, op, f"cannot be divided into {count} parts")
            return
        remark(SplitReductionsPass.name, op, f"{count} parts of each reduction")
        rewriter.replace(op, parts)


@dataclass(frozen=True)
class SplitReductionsPass(ModulePass):
    """Split long reductions into parts, as chosen by `tune.parts`.

    A reduction of a million elements to one keeps a single thread busy; in four parts it keeps four
    threads busy, followed by a second reduction of four elements. The best number of parts depends
    on the threads and on the ops that are fused with the reduction, so it is found by measuring
    (`tcopt-tune`) instead of a cost model.

        %y = graph.reduce %x {kind = sum, axes = [0], tune.parts = 4} : tensor<f32>
    ->
        %v = graph.reshape %x : tensor<4x16384xf32>
        %p = graph.reduce %v {kind = sum, axes = [1]} : tensor<4xf32>
        %y = graph.reduce %p {kind = sum, axes = [0]} : tensor<f32>
    """

    name = "split-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SplitReduction()])
