"""Rewriting of transposed convolutions as plain convolutions or matrix products."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.conv_transpose import ConvTransposeOp
from tcopt.dialects.graph.core.attributes import values_of
from tcopt.dialects.graph.core.types import element_type, is_float, shape_of
from tcopt.dialects.graph.movement.interleave import InterleaveOp
from tcopt.dialects.graph.movement.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.movement.slice import SliceOp
from tcopt.dialects.graph.packed.window_matmul import WindowMatmulOp
from tcopt.dialects.target import TargetFacts, target_facts_of
from tcopt.passes.graph.windows.conv_phases import (
    Phases,
    phase_weights,
    phases_of,
    vector_products,
)
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
        target: facts of the target; None if there is none.
    """

    target: TargetFacts | None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvTransposeOp, rewriter: PatternRewriter) -> None:
        if _stays(op, self.target):
            return
        replacement = _with_whole_phases(op, self.target)
        if replacement is None and (phases := _phases_of_product(op, self.target)) is not None:
            replacement = _as_products(op, phases)
        replacement = replacement or op.as_convolution()
        if replacement is not None:
            rewriter.replace(op, replacement)


@dataclass(frozen=True)
class ExpandConvTransposePass(ModulePass):
    """Rewrite transposed convolutions as plain convolutions or matrix products.

    One convolution computes all phases of the result as channels, and `graph.interleave`
    interleaves them. Its window covers those of all phases, of which each phase uses a part. So if
    channels fill vectors, the op is kept, and `convert-layout` makes each phase a separate
    convolution; if phases differ in extent, the op is padded to a larger result, of which a slice
    is taken. Without a target, with strides of 1, or with groups, every op is rewritten.

    On devices whose threads share memory, each phase of floats is a matrix product of its weights
    and the elements of its windows, which blocks of threads gather in shared memory. Rows are all
    pixels of all images, so small images fill tiles too.

        %y = graph.conv_transpose %x, %w {strides = [2, 2], pads = [1, 1, 1, 1]}
            : tensor<1x3x64x64xf32>
    ->
        %phases = graph.conv %x, %taps {pads = [1, 1, 1, 1]} : tensor<1x12x33x33xf32>
        %y = graph.interleave %phases {strides = [2, 2], starts = [1, 1], output = [64, 64]}
            : tensor<1x3x64x64xf32>

    and on such a device

        %phases = graph.window_matmul %x, %taps {kernel = [2, 2], pads = [1, 1, 1, 1],
            phases = [2, 2], starts = [1, 1]} : tensor<1x12x32x32xf32>
        %y = graph.interleave %phases {strides = [2, 2], starts = [0, 0], output = [64, 64]}
            : tensor<1x3x64x64xf32>
    """

    name = "expand-conv-transpose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [ExpandConvTranspose(target_facts_of(op))])


def _with_whole_phases(op: ConvTransposeOp, target: TargetFacts | None) -> list[Operation] | None:
    """Return the op with phases of equal extent and a slice of it; None if that has no form by
    phases."""
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
    if not _stays(whole, target) and _phases_of_product(whole, target) is None:
        whole.erase()
        return None
    return [whole, SliceOp(whole, [0] * len(shape), shape)]


def _phases_of_product(op: ConvTransposeOp, target: TargetFacts | None) -> Phases | None:
    """Return the phases of an op that should be a matrix product for each of them.

    None if blocks of threads would not gather the windows in their shared memory, or if phases of
    one tap are as many channels of a pointwise convolution.
    """
    if target is None or target.threads is None or not target.threads.shared:
        return None
    phases = phases_of(op) if is_float(element_type(op.x)) else None
    if phases is None or not is_fixed((*op.shape, *phases.places)):
        return None
    is_vector = all(extent == 1 for extent in shape_of(op.x)[2:])
    return phases if max(phases.taps) > 1 or is_vector else None


def _as_products(op: ConvTransposeOp, phases: Phases) -> list[Operation]:
    """Return a matrix product for each phase, and ops that interleave them.

    Phases that have the same windows are more rows of one product.
    """
    rank = len(phases.taps)
    count, depth = math.prod(phases.strides), shape_of(op.w)[0] * math.prod(phases.taps)
    made = phase_weights(op.w, phases)
    # [O, phases..., C, taps...] to [phases, O, C * taps].
    made.append(TransposeOp(made[-1], [*range(1, 1 + rank), 0, *range(1 + rank, 2 + 2 * rank)]))
    is_one = not any(phases.starts)
    made.append(ReshapeOp(made[-1], (1, -1, depth) if is_one else (count, -1, depth)))
    sums = WindowMatmulOp(
        op.x,
        made[-1],
        kernel=phases.taps,
        pads=phases.pads,
        phases=None if is_one else phases.strides,
        starts=None if is_one else phases.starts,
        result_element=op.result_element,
    )
    woven = InterleaveOp(sums, strides=phases.strides, starts=(0,) * rank, output=op.shape[2:])
    return [*made, sums, woven]


def _stays(op: ConvTransposeOp, target: TargetFacts | None) -> bool:
    lanes = 0 if target is None else target.channel_lanes
    phases = phases_of(op)
    if phases is None or lanes < 2 or max(phases.strides) == 1:
        return False
    apart, together = vector_products(phases, op.shape[1], lanes)
    text = f"{apart} vectors phase by phase, {together} together"
    remark(ExpandConvTransposePass.name, op, text)
    return apart <= together
