"""Strided convolutions of single elements of a model's inputs, after a slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from tcopt.dialects.graph.conv import ConvOp
from tcopt.dialects.graph.slice import SliceOp
from tcopt.dialects.graph.types import shape_of
from tcopt.passes.graph.decompose import replace


@dataclass(frozen=True)
class GatherPixelsPass(ModulePass):
    """Take the pixels that a strided convolution of single elements uses out of an input.

    Only these are then brought into another layout, or lie side by side for vectors along an
    image. Where data is computed in blocks of channels it needs no change, and is read where
    it is.

        %y = graph.conv %x, %w {strides = [2, 2]} : tensor<1x128x28x28xf32>
    ->
        %s = graph.slice %x {starts = [0, 0, 0, 0], steps = [1, 1, 2, 2]} : ...x28x28xf32>
        %y = graph.conv %s, %w : tensor<1x128x28x28xf32>
    """

    name = "gather-pixels"
    moves_values: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, ConvOp) and _skips_pixels(inner):
                strides = inner.window.strides
                extents = (*shape_of(inner.x)[:2], *inner.shape[2:])
                starts, steps = [0] * len(extents), (1, 1, *strides)
                part = SliceOp(inner.x, starts, extents, steps)
                new = ConvOp(
                    part,
                    inner.w,
                    groups=inner.group_count,
                    result_element=inner.result_element,
                )
                replace(inner, [part, new])


def _skips_pixels(op: ConvOp) -> bool:
    window = op.window
    return (
        isinstance(op.x.owner, Block)
        and window.is_pointwise
        and not window.is_padded
        and max(window.strides) > 1
        and 0 not in op.shape
    )
