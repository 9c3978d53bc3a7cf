"""Grouped convolutions split into one convolution for each group, concatenated in memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tcopt.dialects.graph.core.attributes import values_of
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.movement.slice import ConcatOp, SliceOp
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp


def groups_apart(op: BlockedConvOp) -> Sequence[Operation]:
    """Split a grouped convolution into one for each group and their concatenation.

        %y = graph.blocked_conv %x, %w {groups = 2} : tensor<1x4x8x8x8xf32>
    ->
        %x0 = graph.slice %x {starts = [0, 0, 0, 0, 0]} : tensor<1x2x8x8x8xf32>
        %w0 = graph.slice %w {starts = [0, 0, 0, 0, 0, 0]} : ...
        %y0 = graph.blocked_conv %x0, %w0 : tensor<1x2x8x8x8xf32>
        ...
        %y = graph.concat %y0, %y1 {axis = 1} : tensor<1x4x8x8x8xf32>
    """
    window, count = op.window, op.group_count
    made: list[Operation] = []
    convolutions: list[BlockedConvOp] = []
    for group in range(count):
        data, weights = _part(op.x, 1, group, count), _part(op.w, 0, group, count)
        conv = type(op)(
            data,
            weights,
            strides=window.strides,
            pads=(*window.low, *window.high),
            dilations=window.dilations,
            pad_value=op.pad_value.value.data,
            skips=values_of(op.skips) or (),
            result_element=op.result_element,
        )
        made += [data, weights, conv]
        convolutions.append(conv)
    return [*made, ConcatOp(convolutions, axis=1)]


def _part(value: SSAValue, axis: int, place: int, count: int) -> SliceOp:
    """Slice one of `count` equal parts of a value along an axis."""
    shape = list(shape_of(value))
    starts = [0] * len(shape)
    shape[axis] //= count
    starts[axis] = place * shape[axis]
    return SliceOp(value, starts, shape)
