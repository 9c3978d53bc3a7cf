"""Convolution over N spatial dimensions, with groups."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.attributes import FusionKind, Int, Ints, integer
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import LinearWeight
from tcopt.dialects.graph.core.stages import (
    image_compute,
    narrow,
    pad_space,
    tap_axes,
    window_taps,
)
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    numpy_dtype,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.core.windows import Window, view_windows, window_properties
from tcopt.dialects.graph.elementwise.arithmetic import MulOp
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.graph.movement.slice import SliceOp
from tcopt.dialects.te import api as te


class ConvolutionOp(ContractionOp, ABC):
    """Base class of convolution and transposed convolution: operands and window attributes."""

    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    strides = opt_prop_def(Ints)
    pads = opt_prop_def(Ints)
    dilations = opt_prop_def(Ints)
    groups = prop_def(Int, default_value=integer(1))
    result = result_def(TensorType)

    @property
    def window(self) -> Window:
        """Window of the convolution; its pads are those of the attribute."""
        return Window.of(shape_of(self.w)[2:], self.strides, self.pads, self.dilations)

    @property
    def group_count(self) -> int:
        """Number of groups."""
        return self.groups.value.data

    def check_ranks(self) -> None:
        """Raise VerifyException unless data and weights have a batch, channels and equal rank."""
        x, w, groups = shape_of(self.x), shape_of(self.w), self.group_count
        if len(x) < 3 or len(w) != len(x):
            raise VerifyException(
                f"data of rank {len(x)} and weights of rank {len(w)}: "
                "expected equal ranks, a batch, channels and spatial dimensions"
            )
        if groups < 1 or x[1] % groups:
            raise VerifyException(f"{x[1]} input channels do not split into {groups} groups")


@irdl_op_definition
class ConvOp(ConvolutionOp):
    """Convolution of x [N, C, spatial...] with w [O, C / groups, kernel...].

    `pads` lists the pads at the start of each spatial dimension, then those at the ends; their
    elements are `pad_value`. A bias is a separate add.
    """

    name = "graph.conv"

    pad_value = prop_def(Int, default_value=integer(0))

    def __init__(
        self,
        x: SSAValue | Operation,
        w: SSAValue | Operation,
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        groups: int = 1,
        pad_value: int = 0,
        result_element: Attribute | None = None,
    ):
        properties = {
            **window_properties(strides, pads, dilations),
            "groups": integer(groups),
            "pad_value": integer(pad_value),
            "result_element": result_element,
        }
        super().__init__([x, w], properties)

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, O, window positions...]."""
        self.check_ranks()
        x, w, groups = shape_of(self.x), shape_of(self.w), self.group_count
        if w[1] * groups != x[1]:
            raise VerifyException(
                f"weights take {w[1]} channels in each of {groups} groups, data has {x[1]}"
            )
        if w[0] % groups:
            raise VerifyException(f"{w[0]} output channels do not split into {groups} groups")
        output = self.window.output(x[2:])
        return (tensor((x[0], w[0], *output), self.sum_element()),)

    def work(self) -> int:
        """Return the operation count: two operations for each product."""
        return 2 * math.prod(self.shape) * math.prod(shape_of(self.w)[1:])

    def linear_weight(self) -> LinearWeight | None:
        """Return the weights: the result is linear in them, by output channel."""
        return LinearWeight(operand=1, axis=0, channel=1)

    @property
    def sums_shifts(self) -> bool:
        """True: padding is shifted too, so every element is a full sum."""
        return True

    def decompose(self) -> Sequence[Operation] | None:
        """Return a multiplication by one factor per channel, if each sum has one product of
        floats."""
        window, element = self.window, self.type.element_type
        is_scale = window.is_pointwise and not window.is_padded and is_float(element)
        if not is_scale or not self.shape[1] == shape_of(self.x)[1] == self.group_count:
            return None
        x: SSAValue | SliceOp | CastOp = self.x
        made: list[Operation] = []
        if max(window.strides) > 1:
            steps = (1, 1, *window.strides)
            x = SliceOp(x, [0] * len(steps), self.shape, steps)
            made.append(x)
        w: ReshapeOp | CastOp = ReshapeOp(self.w, (self.shape[1], *(1 for _ in window.kernel)))
        made.append(w)
        if element_type(self.x) != element:
            x, w = CastOp(x, element), CastOp(w, element)
            made += [x, w]
        return (*made, MulOp(x, w))

    def simplify(self) -> Sequence[Operation] | None:
        """Remove taps that read only zero padding, as dilated ones may; or return `decompose`."""
        w, window, extents = shape_of(self.w), self.window, shape_of(self.x)[2:]
        taps = window.seeing_data(extents, self.shape[2:])
        counts = [len(t) for t in taps]
        if tuple(counts) == window.kernel or self.pad_value.value.data or 0 in self.shape:
            return self.decompose()
        if 0 in counts:
            return (ConstantOp.literal(np.zeros(self.shape, numpy_dtype(self.type.element_type))),)
        reach = [(n - 1) * s for n, s in zip(self.shape[2:], window.strides, strict=True)]
        lows = [p - t.start * d for p, t, d in zip(window.low, taps, window.dilations, strict=True)]
        highs = [
            r + (n - 1) * d + 1 - low - extent
            for r, n, d, low, extent in zip(
                reach, counts, window.dilations, lows, extents, strict=True
            )
        ]
        x, made = self.x, list[Operation]()
        if min(*lows, *highs) < 0:
            # Windows start after the first element, or end before the last.
            starts = [max(0, -low) for low in lows]
            kept = [
                extent - start - max(0, -high)
                for extent, start, high in zip(extents, starts, highs, strict=True)
            ]
            part = SliceOp(x, [0, 0, *starts], [*shape_of(x)[:2], *kept])
            made, x = [part], part.results[0]
            lows, highs = [max(0, n) for n in lows], [max(0, n) for n in highs]
        weights = SliceOp(self.w, [0, 0, *(t.start for t in taps)], [*w[:2], *counts])
        product = ConvOp(
            x,
            weights,
            strides=window.strides,
            pads=[*lows, *highs],
            dilations=[d if n > 1 else 1 for d, n in zip(window.dilations, counts, strict=True)],
            groups=self.group_count,
            result_element=self.result_element,
        )
        return (*made, weights, product)

    def compute(self, x: Array, w: Array) -> Array:
        """Evaluate with numpy: gather the windows, then multiply matrices for each group."""
        n, o, *output = self.shape
        groups, rank = self.group_count, len(output)
        windows = view_windows(x, self.window, output, self.pad_value.value.data)
        order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
        columns = windows.transpose(order).reshape(n, groups, -1, math.prod(output))
        return np.matmul(w.reshape(groups, o // groups, -1), columns)

    def tensor_expression(self, x: te.Tensor, w: te.Tensor) -> te.Tensor:
        """Return a pad stage if there are pads, then one reduction over channels and taps."""
        window, output = self.window, self.shape[2:]
        if window.is_padded:
            extents = [
                (count - 1) * stride + span
                for count, stride, span in zip(output, window.strides, window.span, strict=True)
            ]
            x = pad_space(x, window.low, extents, self.pad_value.value.data)
        per_group, in_group = self.shape[1] // self.group_count, w.shape[1]
        taps = tap_axes(window.kernel)
        channel = te.reduce_axis(in_group, "rc")
        axes = taps if in_group == 1 and self.group_count > 1 else [channel, *taps]

        def body(n: te.Axis, o: te.Axis, *places: te.Axis) -> Any:
            at = window_taps(places, taps, window.strides, window.dilations)
            own, source = group_channels(o, axes, channel, per_group, in_group, self.group_count)
            left = self.widened(x[(n, source, *at)])
            return te.sum(left * self.widened(w[(o, own, *taps)]), axis=axes)

        return narrow(image_compute(self.shape, body, "conv"), self.type.element_type)


def group_channels(
    o: te.Axis,
    axes: Sequence[te.Axis],
    channel: te.Axis,
    per_group: int,
    in_group: int,
    groups: int,
) -> tuple[Any, Any]:
    """Return the channel within the group and the input channel that output channel `o` reads."""
    if groups == 1:
        return channel, channel
    group: Any = o if per_group == 1 else o // per_group
    if axes[0] is not channel:
        return 0, group
    return channel, group * in_group + channel
