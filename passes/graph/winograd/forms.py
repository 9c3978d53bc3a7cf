"""Winograd forms of convolutions: conditions, ops and weights, by class of op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from xdsl.dialects.builtin import f32, i16, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.contraction.conv import ConvOp
from tcopt.dialects.graph.contraction.conv_transpose import ConvTransposeOp
from tcopt.dialects.graph.core.constant import is_made_of_constants
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import bytes_of, element_type, numpy_dtype, shape_of
from tcopt.dialects.graph.core.windows import Window
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.movement.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.movement.slice import CACHE_LINE
from tcopt.dialects.graph.packed.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.packed.blocked_conv_transpose import BlockedConvTransposeOp
from tcopt.dialects.graph.packed.winograd import WinogradConvOp, WinogradWeightsOp
from tcopt.dialects.graph.packed.winograd_plain import WinogradPlainConvOp
from tcopt.dialects.target.convolution_costs import ConvLayer
from tcopt.passes.graph.winograd.conv_groups import groups_apart
from tcopt.support.arithmetic.sizes import hint_values, is_fixed, upper_bound
from tcopt.support.registries.rule_table import OpFunction

HINTS = 5
"""Number of batches of a range for which costs are estimated."""


@dataclass(frozen=True)
class WinogradForm:
    """A convolution of data by kernels of `taps` x `taps`.

    Attributes:
        stride: stride by which rows and columns of the data are split into channels.
        phases, starts: phases of the result in each dimension, and their starts.
        pads: pads of the data.
        groups: number of convolutions of this form that the op consists of.
        split: with several groups, returns one contraction for each with their operands, and last
            the op that joins them.
        of_pixels: whether neighbours in memory are pixels, as on targets without blocks of
            channels.
        whole: whether the convolution is of integers.
    """

    taps: int
    stride: int
    phases: int
    starts: tuple[int, int]
    pads: tuple[int, ...]
    groups: int = 1
    split: Callable[[], Sequence[Operation]] | None = None
    of_pixels: bool = False
    whole: bool = False

    def layers(self, op: ContractionOp, resident: int, terms: int = 1) -> list[ConvLayer]:
        """Return the parameters on which the cost of each group depends, for batches over the range
        of the batch if it is a size.

        Args:
            resident: bytes of all weights of the program.
            terms: products that one instruction adds to a sum.
        """
        largest = self.layer(op, resident, terms)
        return [replace(largest, images=images) for images in hint_values(op.shape[0], HINTS)]

    def layer(self, op: ContractionOp, resident: int, terms: int = 1) -> ConvLayer:
        """Return the last of `layers`, for the upper bound of the batch."""
        x = shape_of(op.operands[0])
        images, outputs, height, width, *lanes = (upper_bound(op.shape[0]), *op.shape[1:])
        return ConvLayer(
            images,
            height // self.phases,
            width // self.phases,
            x[1] * prod(x[4:]) // self.groups * self.stride**2,
            outputs * prod(lanes) // self.groups,
            resident,
            self.taps,
            phases=self.phases,
            inner=prod(x[4:]),
            element_bytes=numpy_dtype(element_type(op.weights)).itemsize,
            terms=terms,
            whole=self.whole,
        )

    def ops(
        self, op: ContractionOp, tile: int, group: int = 1, element: Attribute | None = None
    ) -> list[GraphOp]:
        """Return the ops that compute a convolution in this form, the last one being the result.

        Args:
            op: a convolution without groups.
            tile: rows and columns of the result's tiles.
            group: number of adjacent input channels in weights; it divides their blocks.
            element: type to which transformed data and weights are rounded; None to keep theirs.
        """
        data = op.operands[0]
        if self.of_pixels:
            return self._of_pixels(data, op.weights, tile)
        made = self._weights(op.weights)
        last = made[-1].results[0] if made else op.weights
        made.append(WinogradWeightsOp(last, tile=tile, phases=self.phases))
        if element is not None:
            made.append(CastOp(made[-1].results[0], element))
        if group > 1:
            *lead, inner, outer = shape_of(made[-1].results[0])
            made.append(ReshapeOp(made[-1], [*lead, inner // group, group, outer]))
            made.append(
                TransposeOp(made[-1], [*range(len(lead) + 1), len(lead) + 2, len(lead) + 1])
            )
        new = WinogradConvOp(
            data,
            made[-1],
            tile=tile,
            stride=self.stride,
            phases=self.phases,
            starts=self.starts,
            pads=self.pads,
        )
        return [*made, new]

    def _of_pixels(self, data: SSAValue, w: SSAValue, tile: int) -> list[GraphOp]:
        """Return the ops for pixels; all channels are one block of the weights for the
        transform."""
        outputs, inputs, *kernel = shape_of(w)
        last = TransposeOp(w, [2, 3, 1, 0])
        block = ReshapeOp(last, [1, 1, *kernel, inputs, outputs])
        weights = WinogradWeightsOp(block, tile=tile)
        flat = ReshapeOp(weights, [*shape_of(weights.result)[:2], inputs, outputs])
        product = WinogradPlainConvOp(data, flat, tile=tile, pads=self.pads)
        return [last, block, weights, flat, product]

    def _weights(self, w: SSAValue) -> list[GraphOp]:
        """Return ops that convert a convolution's weights to [O / b, C / a, taps, taps, a, b]."""
        shape, taps, step = shape_of(w), self.taps, self.stride
        if self.phases > 1:
            outputs, _, _, inputs, _, _, *block = shape
            whole = self.phases * taps
            beside = TransposeOp(w, [0, 3, 1, 4, 2, 5, 6, 7])
            return [beside, ReshapeOp(beside, (outputs, inputs, whole, whole, *block))]
        if step == 1:
            return []
        outputs, inputs, _, _, *block = shape
        parts = ReshapeOp(w, (outputs, inputs, taps, step, taps, step, *block))
        apart = TransposeOp(parts, [0, 1, 3, 5, 2, 4, 6, 7])
        return [parts, apart, ReshapeOp(apart, (outputs, inputs * step**2, taps, taps, *block))]


winograd_form: OpFunction[[bool], WinogradForm | str | None] = OpFunction(__name__, None)
"""The Winograd form of a convolution, or the reason why it has none; None if the op is not a
convolution of data in this layout.

Its argument says whether neighbours in memory are pixels, rather than channels of a block.
"""

shared_filter: OpFunction[[], tuple[int, int] | None] = OpFunction(__name__, None)
"""Taps and output phases in each dimension of a filter that tiles of the result may share in some
layout; None if the op is not such a convolution."""


@shared_filter.rule_for(ConvOp)
def _filter_of_conv(op: ConvOp) -> tuple[int, int] | None:
    # A stride is turned into additional channels.
    square = op.window.square
    if square is None or shape_of(op.w)[1] == 1:
        return None
    taps, step = square
    return (taps // step, 1) if taps % step == 0 and taps > step else None


@shared_filter.rule_for(ConvTransposeOp)
def _filter_of_conv_transpose(op: ConvTransposeOp) -> tuple[int, int] | None:
    # There are as many phases as the stride, each with a filter of its own.
    square = op.window.square
    if square is None:
        return None
    taps, step = square
    return (-(-taps // step), step) if taps > step else None


@winograd_form.rule_for(ConvOp)
def form_of_conv(op: ConvOp, of_pixels: bool) -> WinogradForm | str | None:
    """Return the form of a convolution of plain data."""
    if not of_pixels:
        return None
    window = op.window
    reasons = (
        (op.group_count > 1, "it has groups"),
        (window.kernel != (3, 3), f"its kernel is {'x'.join(map(str, window.kernel))}"),
        (set(window.strides) != {1}, "it has strides"),
    )
    reason = _declined(op, window) or _first(reasons)
    return reason or WinogradForm(3, 1, 1, (0, 0), (*window.low, *window.high), of_pixels=True)


@winograd_form.rule_for(BlockedConvOp)
def form_of_blocked_conv(op: BlockedConvOp, of_pixels: bool) -> WinogradForm | str | None:
    """Return the form of a convolution of channels in blocks."""
    if of_pixels:
        return None
    window = op.window
    whole = _is_whole(op)
    if (reason := _declined(op, window, whole)) is not None:
        return reason
    if op.is_plain or len(shape_of(op.x)) != 5:
        return "its data is not stored in blocks of channels"
    kernel, (step, across), groups = window.kernel, window.strides, op.group_count
    reasons = (
        (op.is_depthwise, "it is depthwise"),
        (groups > 1 and not is_joined_by_groups(op), "its groups are not aligned in memory"),
        (kernel[0] != kernel[1] or step != across, "its kernel or stride is not square"),
        (step > 1 and groups > 1, "it has strides and groups"),
        (kernel[0] == step, "its windows do not overlap"),
        (kernel[0] % step > 0, "its stride does not divide its kernel"),
        (op.group > 1, "its weights are stored for dot products"),
        (op.pad_value.value.data != 0, "it is not padded with zeros"),
    )
    pads, taps = (*window.low, *window.high), kernel[0] // step
    split = partial(groups_apart, op) if groups > 1 else None
    return _first(reasons) or WinogradForm(taps, step, 1, (0, 0), pads, groups, split, whole=whole)


@winograd_form.rule_for(BlockedConvTransposeOp)
def form_of_blocked_conv_transpose(
    op: BlockedConvTransposeOp, of_pixels: bool
) -> WinogradForm | str | None:
    """Return the form of a transposed convolution of channels in blocks, whose phases share
    tiles."""
    if of_pixels:
        return None
    window = op.window
    if (reason := _declined(op, window)) is not None:
        return reason
    if len(shape_of(op.x)) != 5:
        return "its data is not stored in blocks of channels"
    if len(set(op.phases)) != 1 or len(set(op.taps)) != 1 or op.phases[0] == 1 or op.taps[0] == 1:
        return "its phases do not all have the same number of taps, at least 2"
    down, across = op.starts.get_values()
    pads = (*window.low, *window.high)
    return WinogradForm(op.taps[0], 1, op.phases[0], (down, across), pads)


def is_joined_by_groups(op: BlockedConvOp) -> bool:
    """Whether the results of the groups are contiguous and aligned in the result."""
    return op.shape[0] == 1 and bytes_of(op.type) // op.group_count % CACHE_LINE == 0


def _is_whole(op: ContractionOp) -> bool:
    """Whether the op sums products of 16-bit integers in 32 bits."""
    return op.sum_element() == i32 and {element_type(x) for x in op.operands} == {i16}


def _declined(op: ContractionOp, window: Window, whole: bool = False) -> str | None:
    element = element_type(op.operands[0])
    reasons = (
        (element != f32 and not whole, f"it computes in {element}"),
        (0 in op.shape, "it is empty"),
        (not is_made_of_constants(op.weights), "its weights are not known at compile time"),
        (set(window.dilations) != {1}, "it is dilated"),
        # Tiles of all images are numbered consecutively: quotients by sizes are not affine.
        (not is_fixed(op.shape[2:4]), "its height or width has a range"),
    )
    return _first(reasons)


def _first(reasons: Sequence[tuple[bool, str]]) -> str | None:
    return next((reason for holds, reason in reasons if holds), None)
