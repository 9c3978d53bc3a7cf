"""Splitting of convolutions with few output channels into a product for each tap, and a sum."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from tcopt.dialects.graph.contraction.conv import ConvOp
from tcopt.dialects.graph.contraction.sum_taps import SumTapsOp
from tcopt.dialects.graph.core.types import element_type, shape_of, type_of
from tcopt.dialects.graph.movement.shape import ReshapeOp, TransposeOp
from tcopt.dialects.target import CpuTargetAttr, cpu_target_of
from tcopt.passes.graph.layout.channel_blocks import block_of
from tcopt.passes.graph.layout.skipped_taps import MOST_SEEN, taps_seen
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.ir.rewriting import rewrite
from tcopt.support.remarks import remark

LEAST_GAIN = 1.25
"""Minimum estimated speed-up."""


@dataclass
class SplitTaps(RewritePattern):
    """Multiply each element by all taps at once, then sum the products that belong to each output.

        %y = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x1x56x56xf32>
    ->
        %t = graph.conv %x, %taps : tensor<1x9x56x56xf32>
        %y = graph.sum_taps %t {kernel = [3, 3], pads = [1, 1, 1, 1]} : tensor<1x1x56x56xf32>

    Attributes:
        target: target with the vector length and cache sizes.
    """

    target: CpuTargetAttr

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvOp, rewriter: PatternRewriter) -> None:
        if not _may_split(op, self.target.vector_lanes()):
            return
        whole, apart = _whole_cycles(op, self.target), _apart_cycles(op, self.target)
        text = f"est. {whole:.0f} cycles, {apart:.0f} with separate taps"
        remark(SplitTapsPass.name, op, text)
        if apart * LEAST_GAIN <= whole:
            rewriter.replace(op, _parts(op))


@dataclass(frozen=True)
class SplitTapsPass(ModulePass):
    """Rewrite convolutions with few output channels as a product for each tap, followed by a sum.

    A convolution with one output channel uses one lane of a vector, or else neighbouring pixels,
    which only suits images as wide as vectors. If taps become output channels, one pointwise
    convolution computes the products of the data with every tap: vectors are full, and there are no
    products with pads. `graph.sum_taps` adds up the products of each output. The last layers of
    networks that generate images, above all transposed convolutions, are of this kind. Storing the
    products pays off if there are enough input channels.

        %y = graph.conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x1x56x56xf32>
    ->
        %t = graph.conv %x, %taps : tensor<1x9x56x56xf32>
        %y = graph.sum_taps %t {kernel = [3, 3], pads = [1, 1, 1, 1]} : tensor<1x1x56x56xf32>
    """

    name = "split-taps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = cpu_target_of(op)
        if target is not None:
            rewrite(op, [SplitTaps(target)])


def _may_split(op: ConvOp, lanes: int) -> bool:
    """Whether a f32 convolution is computed on plain data, or with vectors at most half full."""
    if op.window.is_pointwise or op.pad_value.value.data or 0 in (*op.shape, *shape_of(op.x)):
        return False
    if element_type(op.x) != f32 or element_type(op.w) != f32:
        return False
    if op.group_count == 1:
        return 2 * op.shape[1] <= lanes
    return not _is_blocked(op, lanes)


def _is_blocked(op: ConvOp, lanes: int) -> bool:
    """Whether groups are whole channel blocks."""
    inputs, groups = shape_of(op.x)[1], op.group_count
    inner, outer = inputs // groups, op.shape[1] // groups
    return inner % block_of(inputs, lanes) == 0 and outer % block_of(op.shape[1], lanes) == 0


def _whole_cycles(op: ConvOp, target: CpuTargetAttr) -> float:
    """Estimate the cycles of the convolution as it is."""
    lanes, window, places = target.vector_lanes(), op.window, op.shape[2:]
    images = upper_bound(op.shape[0])
    terms = prod(shape_of(op.w)[1:])
    if op.group_count > 1:
        rows = images * op.shape[1] * prod(places[:-1])
        return target.vectors.cycles(products=rows * ceil(places[-1] / lanes) * terms)
    seen = taps_seen(window, shape_of(op.x)[2:], places)
    parts = [n / (m * k) for n, m, k in zip(seen, places, window.kernel, strict=True)]
    left = prod(part for part in parts if part <= MOST_SEEN)
    vectors = images * prod(places) * ceil(op.shape[1] / lanes)
    return target.vectors.cycles(products=vectors * terms * left)


def _apart_cycles(op: ConvOp, target: CpuTargetAttr) -> float:
    """Estimate the cycles of the products with all taps, of storing them, and of their sums."""
    lanes, taps, places = target.vector_lanes(), prod(op.window.kernel), op.shape[2:]
    (images, _, *extents), inputs = type_of(op.x).get_shape(), shape_of(op.w)[1]
    pixels, channels = prod(extents), op.shape[1] * taps
    if op.group_count > 1:
        vectors = images * ceil(pixels / lanes) * channels
    else:
        vectors = images * pixels * ceil(channels / lanes)
    stored, units = 4 * images * pixels * channels, target.vectors
    # The products are stored and loaded again.
    moved = 2 * stored / (units.near_rate if stored <= units.l2 else units.memory_rate)
    summed = images * channels * prod(places[:-1]) * ceil(places[-1] / lanes)
    return units.cycles(products=vectors * inputs) + moved + summed


def _parts(op: ConvOp) -> list[Operation]:
    window, groups, taps = op.window, op.group_count, prod(op.window.kernel)
    outputs, inputs, *_ = shape_of(op.w)
    split = ReshapeOp(op.w, (groups, outputs // groups, inputs, taps))
    outside = TransposeOp(split, (0, 3, 1, 2))
    single = (1,) * len(window.kernel)
    weights = ReshapeOp(outside, (outputs * taps, inputs, *single))
    products = ConvOp(op.x, weights, groups=groups)
    sums = SumTapsOp(
        products,
        kernel=window.kernel,
        strides=window.strides,
        pads=(*window.low, *window.high),
        dilations=window.dilations,
        groups=groups,
    )
    return [split, outside, weights, products, sums]
