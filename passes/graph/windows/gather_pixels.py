"""Convolutions that use every second or so element of a model's inputs, or near these, after a
slice."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import ClassVar, NamedTuple

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
    """Slice the pixels that a convolution uses out of an input, where it uses every second or so.

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
    """The elements of a dimension that windows use, and the windows on these alone.

    Attributes:
        start, step, extent: which elements they are.
        stride, dilation, low, high: of the windows.
    """

    start: int
    step: int
    extent: int
    stride: int
    dilation: int
    low: int
    high: int


def _used(extent: int, count: int, kernel: int, stride: int, dilation: int, low: int) -> _Used:
    """What `count` windows of a dimension use; all of it where they use neighbours."""
    # A kernel of one element has no dilation, and a single place no stride.
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
    """Take the pixels that a convolution uses out of an input, where it uses every second or so.

    That is so for strides of single elements, for taps of a single place, and where strides and
    dilations have a common factor.
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
