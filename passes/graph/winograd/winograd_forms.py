"""Convolutions as `graph.winograd_conv` computes them: what they are made of, and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tcopt.dialects.graph.blocked_conv import BlockedConvOp
from tcopt.dialects.graph.blocked_conv_transpose import BlockedConvTransposeOp
from tcopt.dialects.graph.constant import is_made_of_constants
from tcopt.dialects.graph.conv import ConvOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.shape import ReshapeOp, TransposeOp
from tcopt.dialects.graph.types import element_type, numpy_dtype, shape_of
from tcopt.dialects.graph.winograd import WinogradConvOp, WinogradWeightsOp
from tcopt.dialects.graph.winograd_plain import WinogradPlainConvOp
from tcopt.dialects.target.convolution_costs import Layer
from tcopt.passes.graph.windows.split_groups import is_joined_by_groups

Convolution = BlockedConvOp | BlockedConvTransposeOp | ConvOp


@dataclass(frozen=True)
class Form:
    """A convolution by kernels of `taps` x `taps`.

    Attributes:
        stride: how many channels each row and column of a channel's data becomes.
        phases, starts: of the result, in each dimension.
        pads: of the data.
        groups: convolutions of this form that make up one.
    """

    taps: int
    stride: int
    phases: int
    starts: tuple[int, int]
    pads: tuple[int, ...]
    groups: int = 1

    def layer(self, op: Convolution, resident: int) -> Layer:
        """What costs of each group depend on."""
        x = shape_of(op.x)
        images, outputs, height, width, *lanes = op.shape
        return Layer(
            images,
            height // self.phases,
            width // self.phases,
            x[1] * prod(x[4:]) // self.groups * self.stride**2,
            outputs * prod(lanes) // self.groups,
            resident,
            self.taps,
            phases=self.phases,
            inner=prod(x[4:]),
            element_bytes=numpy_dtype(element_type(op.w)).itemsize,
        )

    def ops(self, op: Convolution, tile: int) -> list[GraphOp]:
        """The ops that compute a convolution in this form, the result last."""
        if isinstance(op, ConvOp):
            return self._plain(op, tile)
        made = self._weights(op.w)
        last = made[-1].results[0] if made else op.w
        weights = WinogradWeightsOp(last, tile=tile, phases=self.phases)
        new = WinogradConvOp(
            op.x,
            weights,
            tile=tile,
            stride=self.stride,
            phases=self.phases,
            starts=self.starts,
            pads=self.pads,
        )
        return [*made, weights, new]

    def _plain(self, op: ConvOp, tile: int) -> list[GraphOp]:
        """All channels are one block of the weights while they are transformed."""
        outputs, inputs, *kernel = shape_of(op.w)
        last = TransposeOp(op.w, [2, 3, 1, 0])
        block = ReshapeOp(last, [1, 1, *kernel, inputs, outputs])
        weights = WinogradWeightsOp(block, tile=tile)
        flat = ReshapeOp(weights, [*shape_of(weights.result)[:2], inputs, outputs])
        return [
            last,
            block,
            weights,
            flat,
            WinogradPlainConvOp(op.x, flat, tile=tile, pads=self.pads),
        ]

    def _weights(self, w: SSAValue) -> list[GraphOp]:
        """Weights [O / b, C / a, taps, taps, a, b] as ops of those of a convolution."""
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


def form_of(op: Convolution) -> Form | str:
    """The form of an op, or why it has none."""
    reasons = (
        (element_type(op.x) != f32, f"it computes in {element_type(op.x)}"),
        (0 in op.shape, "it is empty"),
        (not is_made_of_constants(op.w), "its weights are not known at compile time"),
        (set(op.window.dilations) != {1}, "it is dilated"),
    )
    if (reason := _first(reasons)) is not None:
        return reason
    if isinstance(op, ConvOp):
        return _of_pixels(op)
    if (isinstance(op, BlockedConvOp) and op.is_plain) or len(shape_of(op.x)) != 5:
        return "its data is not stored in blocks of channels"
    return _of_phases(op) if isinstance(op, BlockedConvTransposeOp) else _of_strides(op)


def _first(reasons: Sequence[tuple[bool, str]]) -> str | None:
    return next((reason for holds, reason in reasons if holds), None)


def _of_pixels(op: ConvOp) -> Form | str:
    """For targets on which neighbours are pixels."""
    window = op.window
    reasons = (
        (op.group_count > 1, "it has groups"),
        (window.kernel != (3, 3), f"its kernel is {'x'.join(map(str, window.kernel))}"),
        (set(window.strides) != {1}, "it has strides"),
    )
    return _first(reasons) or Form(3, 1, 1, (0, 0), (*window.low, *window.high))


def _of_strides(op: BlockedConvOp) -> Form | str:
    window = op.window
    kernel, (step, across) = window.kernel, window.strides
    reasons = (
        (op.is_depthwise, "it is depthwise"),
        (op.group_count > 1 and not is_joined_by_groups(op), "its groups are not apart in memory"),
        (kernel[0] != kernel[1] or step != across, "its rows are not filtered as its columns are"),
        (step > 1 and op.group_count > 1, "it has strides and groups"),
        (kernel[0] == step, "its windows do not overlap"),
        (kernel[0] % step > 0, "its stride does not divide its kernel"),
    )
    return _first(reasons) or Form(
        kernel[0] // step, step, 1, (0, 0), (*window.low, *window.high), op.group_count
    )


def _of_phases(op: BlockedConvTransposeOp) -> Form | str:
    if len(set(op.phases)) != 1 or len(set(op.taps)) != 1 or op.phases[0] == 1 or op.taps[0] == 1:
        return "its phases are not filtered alike"
    window, (down, across) = op.window, op.starts.get_values()
    return Form(op.taps[0], 1, op.phases[0], (down, across), (*window.low, *window.high))
