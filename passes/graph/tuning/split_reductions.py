"""The pass `split-reductions`: long reductions in parts, where that is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.reduce import ReductionOp
from tcopt.dialects.graph.tuning import PARTS, PREFIX, tuned
from tcopt.support.remarks import remark
from tcopt.support.rewriting import rewrite


class SplitReduction(RewritePattern):
    """Divide a reduction into as many parts as is chosen for it.

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
        # What takes its place is not divided again.
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
    """Divides long reductions into parts where that is chosen: by `tune.parts`.

    A reduction of a million numbers to one has work for one thread; in four parts it has work for
    four, and a second reduction of four numbers. What is best depends on threads, and on what is
    fused in front of it and behind, so that it is tried out (`tcopt-tune`) rather than estimated.

        %y = graph.reduce %x {kind = sum, axes = [0], tune.parts = 4} : tensor<f32>
    ->
        %v = graph.reshape %x : tensor<4x16384xf32>
        %p = graph.reduce %v {kind = sum, axes = [1]} : tensor<4xf32>
        %y = graph.reduce %p {kind = sum, axes = [0]} : tensor<f32>
    """

    name = "split-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SplitReduction()])
