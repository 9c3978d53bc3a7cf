"""Convolutions in groups as one convolution for each group, joined in memory."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from tcopt.dialects.graph.attributes import values_of
from tcopt.dialects.graph.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.slice import CACHE_LINE, ConcatOp, SliceOp
from tcopt.dialects.graph.types import bytes_of, shape_of


def is_joined_by_groups(op: BlockedConvOp) -> bool:
    """Whether the results of the groups lie one after the other in the result."""
    return op.shape[0] == 1 and bytes_of(op.type) // op.group_count % CACHE_LINE == 0


def split_groups(op: BlockedConvOp, rewriter: PatternRewriter) -> list[BlockedConvOp]:
    """Replace a convolution in groups by those of the groups and their concatenation.

        %y = graph.blocked_conv %x, %w {groups = 2} : tensor<1x4x8x8x8xf32>
    ->
        %x0 = graph.slice %x {starts = [0, 0, 0, 0, 0]} : tensor<1x2x8x8x8xf32>
        %w0 = graph.slice %w {starts = [0, 0, 0, 0, 0, 0]} : ...
        %y0 = graph.blocked_conv %x0, %w0 : tensor<1x2x8x8x8xf32>
        ...
        %y = graph.concat %y0, %y1 {axis = 1} : tensor<1x4x8x8x8xf32>
    """
    window, count = op.window, op.group_count
    convolutions: list[BlockedConvOp] = []
    for group in range(count):
        data = rewriter.insert(_part(op.x, 1, group, count))
        weights = rewriter.insert(_part(op.w, 0, group, count))
        conv = BlockedConvOp(
            data,
            weights,
            strides=window.strides,
            pads=(*window.low, *window.high),
            dilations=window.dilations,
            pad_value=op.pad_value.value.data,
            skips=values_of(op.skips) or (),
            result_element=op.result_element,
        )
        convolutions.append(rewriter.insert(conv))
    rewriter.replace(op, ConcatOp(convolutions, axis=1))
    return convolutions


def _part(value: SSAValue, axis: int, place: int, count: int) -> SliceOp:
    """One of equal parts of a value along an axis."""
    shape = list(shape_of(value))
    starts = [0] * len(shape)
    shape[axis] //= count
    starts[axis] = place * shape[axis]
    return SliceOp(value, starts, shape)
