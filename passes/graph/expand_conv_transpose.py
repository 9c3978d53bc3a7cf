"""Transposed convolutions of few channels as convolutions of all phases at once."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.conv_transpose import ConvTransposeOp
from tcopt.dialects.target import cpu_target_of
from tcopt.passes.graph.conv_phases import phases_of, vector_products
from tcopt.support.remarks import remark
from tcopt.support.rewriting import rewrite


@dataclass
class ExpandConvTranspose(RewritePattern):
    """Write a transposed convolution as one convolution, where that is fewer vectors.

        %y = graph.conv_transpose %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]}
            : tensor<1x3x64x64xf32>
    ->
        %phases = graph.conv %x, %taps {pads = [1, 1, 1, 1]} : tensor<1x12x33x33xf32>
        %y = graph.interleave %phases {strides = [2, 2], starts = [1, 1], output = [64, 64]}
            : tensor<1x3x64x64xf32>

    Attributes:
        lanes: of a vector.
    """

    lanes: int

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvTransposeOp, rewriter: PatternRewriter) -> None:
        phases = phases_of(op)
        if phases is not None and self.lanes > 1:
            apart, together = vector_products(phases, op.shape[1], self.lanes)
            text = f"{apart} vectors phase by phase, {together} together"
            remark(ExpandConvTransposePass.name, op, text)
            if apart <= together:
                return
        convolution = op.as_convolution()
        if convolution is not None:
            rewriter.replace(op, convolution)


@dataclass(frozen=True)
class ExpandConvTransposePass(ModulePass):
    """Write transposed convolutions whose channels fill no vector as plain convolutions.

    One convolution computes all phases of the result as channels, and `graph.interleave`
    weaves them. Its windows are those of all phases together, of which each uses a part, so
    that where channels fill vectors the op stays, and `convert-layout` makes each phase a
    convolution of its own. Without a target, or where phases differ in extent, no op stays.

        %y = graph.conv_transpose %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]}
            : tensor<1x3x64x64xf32>
    ->
        %phases = graph.conv %x, %taps {pads = [1, 1, 1, 1]} : tensor<1x12x33x33xf32>
        %y = graph.interleave %phases {strides = [2, 2], starts = [1, 1], output = [64, 64]}
            : tensor<1x3x64x64xf32>
    """

    name = "expand-conv-transpose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = cpu_target_of(op)
        lanes = target.vector_lanes() if target is not None else 1
        rewrite(op, [ExpandConvTranspose(lanes)])
