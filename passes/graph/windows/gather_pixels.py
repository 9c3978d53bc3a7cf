"""Slicing of inputs of strided or dilated convolutions to the pixels that they use."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import ClassVar, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.conv import ConvOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.movement.slice import SliceOp
from tcopt.support.ir.rewriting import rewrite


class GatherPixels(RewritePattern):
    """Slice the used pixels out of the input of a strided or dilated convolution.

        %y = graph.conv %x, %w {strides = [2, 2]} : tensor<1x128x28x28xf32>
    ->
        %s = graph.slice %x {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : ...x28x28xf32>
        %y = graph.conv %s, %w : tensor<1x128x28x28xf32>
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvOp, rewriter: PatternRewriter) -> None:
        if 0 in op.shape or not _is_plain_input(op.x):
            return
        axes = [
            _used(*row)
            for row in zip(
                shape_of(op.x)[2:],
                op.shape[2:],
                op.window.kernel,
                op.window.strides,
                op.window.dilations,
                op.window.low,
                strict=True,
            )
        ]
        if all(axis.step == 1 for axis in axes) or min(axis.extent for axis in axes) < 1:
            return
        images, channels, *_ = shape_of(op.x)
        part = SliceOp(
            op.x,
            (0, 0, *(axis.start for axis in axes)),
            (images, channels, *(axis.extent for axis in axes)),
            (1, 1, *(axis.step for axis in axes)),
        )
        new = ConvOp(
            part,
            op.w,
            strides=[axis.stride for axis in axes],
            pads=[*(axis.low for axis in axes), *(axis.high for axis in axes)],
            dilations=[axis.dilation for axis in axes],
            groups=op.group_count,
            pad_value=op.pad_value.value.data,
            result_element=op.result_element,
        )
        rewriter.replace(op, [part, new])


class _Used(NamedTuple):
    """The elements of a dimension that windows use, and the window parameters on these elements.

    Attributes:
        start, step, extent: the used elements.
        stride, dilation, low, high: parameters of the windows on them.
    """

    start: int
    step: int
    extent: int
    stride: int
    dilation: int
    low: int
    high: int


def _used(extent: int, count: int, kernel: int, stride: int, dilation: int, low: int) -> _Used:
    """Return what `count` windows of a dimension use; all of it if they use adjacent elements."""
    # A kernel of one element has no dilation, and a single window has no stride.
    if kernel == 1:
        dilation = stride
    elif count == 1:
        stride = dilation
    step = gcd(stride, dilation)
    last = (count - 1) * stride + (kernel - 1) * dilation - low
    if step == 1:
        return _Used(0, 1, extent, stride, dilation, low, max(0, last + 1 - extent))
    start = -low % step
    kept = (min(extent - 1, last) - start) // step + 1
    before = (low + start) // step
    stride, dilation = stride // step, dilation // step
    reach = (count - 1) * stride + (kernel - 1) * dilation + 1
    return _Used(start, step, kept, stride, dilation, before, max(0, reach - before - kept))


def _is_plain_input(value: SSAValue) -> bool:
    """Whether a value is an input of the model, or computed elementwise from inputs for a single
    use, so that the slice can be applied to these."""
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
    """Slice the used pixels out of the inputs of strided or dilated convolutions.

    A convolution skips pixels if it is pointwise with a stride, if it has a dilation and one output
    along a dimension, or if stride and dilation have a common factor. Only the used pixels are then
    converted to another layout, or made contiguous for vectors along the width. Elementwise
    producers of the data, such as a conversion of its type, are computed only for these pixels.
    Data that is computed in channel blocks needs no slice, as it is not converted.

        %y = graph.conv %x, %w {strides = [2, 2]} : tensor<1x128x28x28xf32>
    ->
        %s = graph.slice %x {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : ...x28x28xf32>
        %y = graph.conv %s, %w : tensor<1x128x28x28xf32>
    """

    name = "gather-pixels"
    moves_values: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [GatherPixels()])
