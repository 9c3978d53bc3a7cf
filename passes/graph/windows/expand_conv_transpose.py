"""Rewriting of transposed convolutions with few channels as one convolution."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.conv_transpose import ConvTransposeOp
from tcopt.dialects.graph.core.attributes import values_of
from tcopt.dialects.graph.movement.slice import SliceOp
from tcopt.dialects.target import target_facts_of
from tcopt.passes.graph.windows.conv_phases import phases_of, vector_products
from tcopt.support.arithmetic.sizes import is_fixed
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.remarks import remark


@dataclass
class ExpandConvTranspose(RewritePattern):
    """Rewrite a transposed convolution as one convolution if that takes fewer vectors.

        %y = graph.conv_transpose %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]}
            : tensor<1x3x64x64xf32>
    ->
        %phases = graph.conv %x, %taps {pads = [1, 1, 1, 1]} : tensor<1x12x33x33xf32>
        %y = graph.interleave %phases {strides = [2, 2], starts = [1, 1], output = [64, 64]}
            : tensor<1x3x64x64xf32>

    Attributes:
        lanes: number of lanes of a vector.
    """

    lanes: int

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvTransposeOp, rewriter: PatternRewriter) -> None:
        if _stays(op, self.lanes):
            return
        replacement = _with_whole_phases(op, self.lanes) or op.as_convolution()
        if replacement is not None:
            rewriter.replace(op, replacement)


@dataclass(frozen=True)
class ExpandConvTransposePass(ModulePass):
    """Rewrite transposed convolutions whose channels do not fill vectors as plain convolutions.

    One convolution computes all phases of the result as channels, and `graph.interleave`
    interleaves them. Its window covers those of all phases, of which each phase uses a part. So if
    channels fill vectors, the op is kept, and `convert-layout` makes each phase a separate
    convolution; if phases differ in extent, the op is padded to a larger result, of which a slice
    is taken. Without a target, with strides of 1, or with groups, every op is rewritten.

        %y = graph.conv_transpose %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]}
            : tensor<1x3x64x64xf32>
    ->
        %phases = graph.conv %x, %taps {pads = [1, 1, 1, 1]} : tensor<1x12x33x33xf32>
        %y = graph.interleave %phases {strides = [2, 2], starts = [1, 1], output = [64, 64]}
            : tensor<1x3x64x64xf32>
    """

    name = "expand-conv-transpose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        lanes = target.channel_lanes if target is not None else 0
        rewrite(op, [ExpandConvTranspose(lanes)])


def _with_whole_phases(op: ConvTransposeOp, lanes: int) -> list[Operation] | None:
    """Return the op with phases of equal extent and a slice of it; None if it is rewritten."""
    window, shape = op.window, op.shape
    more = [-n % s for n, s in zip(shape[2:], window.strides, strict=True)]
    if not is_fixed(more) or not any(more):
        return None
    extra = values_of(op.output_pads) or (0,) * len(more)
    whole = ConvTransposeOp(
        op.x,
        op.w,
        strides=window.strides,
        pads=(*window.low, *window.high),
        output_pads=[a + b for a, b in zip(extra, more, strict=True)],
        dilations=window.dilations,
        groups=op.group_count,
    )
    if op.result_element is not None:
        whole.result_element = op.result_element
    if not _stays(whole, lanes):
        whole.erase()
        return None
    return [whole, SliceOp(whole, [0] * len(shape), shape)]


def _stays(op: ConvTransposeOp, lanes: int) -> bool:
    phases = phases_of(op)
    if phases is None or lanes < 2 or max(phases.strides) == 1:
        return False
    apart, together = vector_products(phases, op.shape[1], lanes)
    text = f"{apart} vectors phase by phase, {together} together"
    remark(ExpandConvTransposePass.name, op, text)
    return apart <= together
