"""Overlap-add of per-tap channels, the second half of a convolution with few output channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import FusionKind, Int, Ints, integer, ints
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import image_compute, tap_axes, window_taps
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.core.windows import Window, view_windows, window_properties
from tcopt.dialects.te import api as te


@irdl_op_definition
class SumTapsOp(GraphOp):
    """[N, C, positions...] from x [N, groups * taps * C / groups, spatial...].

    A convolution can be computed as products of each element with all taps, each tap being a
    channel, followed by this op. At each position, it sums over the taps of a window: each tap
    reads its own channel at the tap's offset. Taps are ordered with the last dimension fastest.
    Elements of pads are zero.
    """

    name = "graph.sum_taps"
    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE

    x = operand_def(TensorType)
    kernel = prop_def(Ints)
    strides = opt_prop_def(Ints)
    pads = opt_prop_def(Ints)
    dilations = opt_prop_def(Ints)
    groups = prop_def(Int, default_value=integer(1))
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        kernel: Sequence[int],
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        groups: int = 1,
    ):
        properties = {
            "kernel": ints(kernel),
            **window_properties(strides, pads, dilations),
            "groups": integer(groups),
        }
        super().__init__([x], properties)

    @property
    def window(self) -> Window:
        """Window of the convolution."""
        kernel = self.kernel.get_values()
        return Window.of(kernel, self.strides, self.pads, self.dilations)

    @property
    def group_count(self) -> int:
        """Number of equal groups of the channels; within each, taps are the outer dimension."""
        return self.groups.value.data

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, C, window positions...]."""
        shape, window, groups = shape_of(self.x), self.window, self.group_count
        if len(shape) < 3 or len(window.kernel) != len(shape) - 2:
            raise VerifyException(
                f"a kernel of rank {len(window.kernel)} does not fit data of rank {len(shape)}"
            )
        if not is_float(element_type(self.x)):
            raise VerifyException(f"expected floats, got {element_type(self.x)}")
        taps = math.prod(window.kernel)
        if groups < 1 or shape[1] % (taps * groups):
            each = f" in {groups} groups" if groups > 1 else ""
            raise VerifyException(f"{shape[1]} channels do not hold {taps} taps{each}")
        result = (shape[0], shape[1] // taps, *window.output(shape[2:]))
        return (tensor(result, element_type(self.x)),)

    def work(self) -> int:
        """Return the operation count: one operation for each tap."""
        return math.prod(self.shape) * math.prod(self.window.kernel)

    def compute(self, x: Array) -> Array:
        """Evaluate with numpy: sum, over the windows of all channels, the tap of each channel."""
        window, groups, output = self.window, self.group_count, self.shape[2:]
        n, channels, taps = x.shape[0], self.shape[1], math.prod(window.kernel)
        windows = view_windows(x, window, output, 0).reshape(*x.shape[:2], *output, taps)
        parts = windows.reshape(n, groups, taps, channels // groups, *output, taps)
        result = np.zeros((n, groups, channels // groups, *output), x.dtype)
        for tap in range(taps):
            result += parts[:, :, tap, ..., tap]
        return result.reshape(self.shape)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return a reduction over taps with guarded reads, which avoids padding so many
        channels."""
        window, groups = self.window, self.group_count
        taps, channels = tap_axes(window.kernel), self.shape[1] // groups
        count = math.prod(window.kernel)

        def body(n: te.Axis, c: te.Axis, *places: te.Axis) -> Any:
            number: Any = 0
            for axis, extent in zip(taps, window.kernel, strict=True):
                number = number * extent + axis
            if groups > 1:
                channel = (c // channels * count + number) * channels + c % channels
            else:
                channel = number * channels + c
            taken = window_taps(places, taps, window.strides, window.dilations)
            at = (i - low if low else i for i, low in zip(taken, window.low, strict=True))
            return te.sum(x.read((n, channel, *at), default=0), axis=taps)

        return image_compute(self.shape, body, "sum_taps")
