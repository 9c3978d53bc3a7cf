"""Replacement of operators by simpler ones."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.support.ir.rewriting import rewrite


class Decompose(RewritePattern):
    """Replace an operator by the result of its `decompose`.

        %y = graph.pool %x {kind = average, kernel = [7, 7]} : tensor<1x8x1x1xf32>
    ->
        %y = graph.reduce %x {kind = mean, axes = [2, 3], keepdims} : tensor<1x8x1x1xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOp, rewriter: PatternRewriter) -> None:
        simpler = op.decompose()
        if simpler is not None:
            rewriter.replace(op, simpler)


@dataclass(frozen=True)
class DecomposePass(ModulePass):
    """Replace operators by the simpler ones that their `decompose` returns.

    Only operators whose parts help later passes are decomposed: a batch normalization becomes a
    scale and a shift that fold into a convolution, and a global pooling becomes a reduction. The
    tanh of a softplus becomes one op. Softmax, layer normalization and other activations are kept,
    because they have their own tensor expressions.

        %y = graph.batch_norm %x, %scale, %bias, %mean, %variance : tensor<1x8x4x4xf32>
    ->
        %factor = ...   // scale / sqrt(variance + epsilon), as a column
        %shift = ...    // bias - mean * factor, as a column
        %0 = graph.mul %x, %factor : tensor<1x8x4x4xf32>
        %y = graph.add %0, %shift : tensor<1x8x4x4xf32>
    """

    name = "decompose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [Decompose()])
