"""Convolutions and transposed convolutions on channels in blocks."""

from __future__ import annotations

from math import prod

from xdsl.ir import SSAValue

from tcopt.dialects.graph.contraction.conv import ConvOp
from tcopt.dialects.graph.contraction.conv_transpose import ConvTransposeOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import element_type, is_float, shape_of, type_of
from tcopt.dialects.graph.movement.layout import SPATIAL, LayoutTransformOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.blocked_conv_transpose import BlockedConvTransposeOp
from tcopt.dialects.intrinsics import added_at_once
from tcopt.passes.graph.layout.blocked_forms import contraction_in_blocks
from tcopt.passes.graph.layout.convert_layout import BlockLayouts
from tcopt.passes.graph.layout.skipped_taps import skipped_dimensions
from tcopt.passes.graph.windows.conv_phases import phase_weights, phases_of


@contraction_in_blocks.rule_for(ConvOp)
def conv_in_blocks(op: ConvOp, layouts: BlockLayouts) -> GraphOp | None:
    """Return a convolution whose vectors hold output channels; None if it should stay plain.

    Images of one to three channels keep their layout, and so do groups that do not compute whole
    blocks of channels.
    """
    spatial = SPATIAL.get(len(op.shape) - 2)
    if spatial is None or 0 in op.shape:
        return None
    x, w, groups = shape_of(op.x), shape_of(op.w), op.group_count
    block = layouts.block_of(w[0])
    if groups == x[1] == w[0] and w[1] == 1 and groups > 1:
        weights = layouts.insert(ReshapeOp(op.w, (w[0], *w[2:])))
        return _conv(op, layouts, layouts.blocked(op.x), weights, f"O{spatial}", f"{block}o")
    is_plain_product = not layouts.is_blocked(op.x) and _is_product(op)
    if is_plain_product and layouts.stays_plain(op, _wasted(op, layouts)):
        return None
    form, inner = f"OI{spatial}", layouts.block_of(x[1])
    is_few = groups == 1 and x[1] < layouts.block_of(1) and not layouts.is_blocked(op.x)
    if is_few and is_float(element_type(op.x)):
        # Integer dot products need adjacent channels, however few there are.
        if 2 * w[0] <= layouts.lanes:
            return None
        return _conv(op, layouts, op.x, op.w, form, f"{block}o")
    if groups > 1 and w[0] // groups % block:
        return None
    if groups > 1 and w[1] % inner:
        # A pointwise convolution is a matrix product for each group in the existing layout.
        is_product = op.window.is_pointwise and set(op.window.strides) == {1}
        if is_product or not is_float(element_type(op.x)):
            return None
        return _conv(op, layouts, layouts.plain(op.x), op.w, form, f"{block}o")
    rows = _spanned_rows(op) if groups == 1 and not layouts.is_blocked(op.x) else 0
    if rows:
        inner = layouts.block_of(rows * x[1])
        data = layouts.insert(ReshapeOp(op.x, _rows_in_channels(x, rows)))
        weights = layouts.insert(ReshapeOp(op.w, _rows_in_channels(w, rows)))
        return _conv(op, layouts, layouts.blocked(data), weights, form, f"{inner}i{block}o")
    return _conv(op, layouts, layouts.blocked(op.x), op.w, form, f"{inner}i{block}o")


def _spanned_rows(op: ConvOp) -> int:
    """Return the number of rows of the data if every window spans exactly these; otherwise 0.

    Rows and channels are contiguous in plain data, so such rows can be treated as channels. Fewer
    channels are then added to fill blocks, and one long loop runs over the blocks.
    """
    rows, window = shape_of(op.x)[2], op.window
    fills = window.kernel[0] == rows and op.shape[2] == window.dilations[0] == 1
    return rows if fills and rows > 1 and not (window.low[0] or window.high[0]) else 0


def _rows_in_channels(shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """Return the shape of data or weights after their rows have become channels."""
    return (shape[0], rows * shape[1], 1, *shape[3:])


def _is_product(op: ConvOp) -> bool:
    """Whether the op is a matrix product on plain data, with pixels in vectors."""
    window = op.window
    is_plain = op.group_count == 1 and window.is_pointwise and not window.is_padded
    return is_plain and set(window.strides) == {1}


def _wasted(op: ConvOp, layouts: BlockLayouts) -> float:
    """Return the vector multiplications that a product loses on plain data: for unused lanes after
    the last pixel, and for dot-product instructions, whose terms are adjacent only in blocks."""
    # At the upper bounds of sizes.
    batch, outputs, *space = op.type.get_shape()
    channels = batch * outputs * type_of(op.x).get_shape()[1]
    pixels = prod(space)
    factors = element_type(op.x), element_type(op.w)
    group = added_at_once(layouts.capabilities, factors, op.sum_element())
    whole = pixels + -pixels % layouts.lanes
    return channels * (whole - pixels / group) / layouts.lanes


def _conv(
    op: ConvOp, layouts: BlockLayouts, data: SSAValue, weights: SSAValue, form: str, blocks: str
) -> GraphOp:
    """Build the blocked form; weights in layout `form` are converted to `blocks`."""
    reordered = layouts.insert(LayoutTransformOp(weights, src=form, dst=form + blocks))
    window, is_plain = op.window, len(shape_of(data)) == len(op.shape)
    return BlockedConvOp(
        data,
        reordered,
        strides=window.strides,
        pads=(*window.low, *window.high),
        dilations=window.dilations,
        groups=op.group_count if form.startswith("OI") else 1,
        plain=is_plain,
        pad_value=op.pad_value.value.data,
        skips=skipped_dimensions(op, layouts.capabilities),
        result_element=op.result_element,
    )


@contraction_in_blocks.rule_for(ConvTransposeOp)
def conv_transpose_in_blocks(op: ConvTransposeOp, layouts: BlockLayouts) -> GraphOp | None:
    """Return a transposed convolution by phases; None if it has none."""
    rank = len(op.shape) - 2
    phases = phases_of(op)
    if phases is None or rank not in SPATIAL:
        return None
    weights = op.w
    for each in phase_weights(op.w, phases):
        weights = layouts.insert(each)
    block, inner = layouts.block_of(op.shape[1]), layouts.block_of(shape_of(op.x)[1])
    form = f"O{'PQR'[:rank]}I{SPATIAL[rank]}"
    reordered = LayoutTransformOp(weights, src=form, dst=f"{form}{inner}i{block}o")
    return BlockedConvTransposeOp(
        layouts.blocked(op.x),
        layouts.insert(reordered),
        starts=phases.starts,
        pads=phases.pads,
        result_element=op.result_element,
    )
