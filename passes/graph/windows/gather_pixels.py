"""Strided convolutions of single elements of a model's inputs, or near these, after a slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.constant import ConstantOp
from tcopt.dialects.graph.conv import ConvOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.slice import SliceOp
from tcopt.dialects.graph.types import shape_of
from tcopt.support.rewriting import rewrite


class GatherPixels(RewritePattern):
    """Slice the pixels that a strided convolution of single elements uses out of an input.

        %y = graph.conv %x, %w {strides = [2, 2]} : tensor<1x128x28x28xf32>
    ->
        %s = graph.slice %x {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : ...x28x28xf32>
        %y = graph.conv %s, %w : tensor<1x128x28x28xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvOp, rewriter: PatternRewriter) -> None:
        if not _skips_pixels(op):
            return
        extents = (*shape_of(op.x)[:2], *op.shape[2:])
        part = SliceOp(op.x, [0] * len(extents), extents, (1, 1, *op.window.strides))
        new = ConvOp(part, op.w, groups=op.group_count, result_element=op.result_element)
        rewriter.replace(op, [part, new])


def _skips_pixels(op: ConvOp) -> bool:
    window = op.window
    return (
        _is_plain_input(op.x)
        and window.is_pointwise
        and not window.is_padded
        and max(window.strides) > 1
        and 0 not in op.shape
    )


def _is_plain_input(value: SSAValue) -> bool:
    """Whether a value is an input of the model, or computed of inputs element by element for one
    use alone, so that the slice is taken there."""
    pending = [value]
    while pending:
        value = pending.pop()
        op = value.owner
        if isinstance(op, Block):
            continue
        if not isinstance(op, GraphOp) or not op.is_elementwise or not value.has_one_use():
            return False
        pending += [v for v in op.operands if not isinstance(v.owner, ConstantOp)]
    return True


@dataclass(frozen=True)
class GatherPixelsPass(ModulePass):
    """Take the pixels that a strided convolution of single elements uses out of an input.

    Only these are then brought into another layout, or lie side by side for vectors along an
    image; what is computed of inputs element by element, a conversion from another type for one,
    is computed for them alone. Where data is computed in blocks of channels it needs no change,
    and is read where it is.

        %y = graph.conv %x, %w {strides = [2, 2]} : tensor<1x128x28x28xf32>
    ->
        %s = graph.slice %x {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : ...x28x28xf32>
        %y = graph.conv %s, %w : tensor<1x128x28x28xf32>
    """

    name = "gather-pixels"
    moves_values: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [GatherPixels()])
