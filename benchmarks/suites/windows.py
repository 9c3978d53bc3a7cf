"""Convolutions and pooling with other windows: dilated, transposed, in 16-bit floats, large."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from case import Case
from tcopt.frontends.onnx.building.network import Network


def _layer(
    operator: str, data: Sequence[int], weights: Sequence[int], *, half: bool = False, **window: Any
) -> ModelProto:
    """One layer with weights; its result has the extents that the window makes of the data."""
    net = Network("layer")
    x = net.input("x", data, TensorProto.FLOAT16 if half else TensorProto.FLOAT)
    values = net.normal(weights, 0.1) if weights else ""
    y = net.add(operator, *([x, values] if weights else [x]), **window)
    made = net.model(**{y: []})
    made.graph.output[0].type.tensor_type.ClearField("shape")
    if half:
        (weight,) = made.graph.initializer
        narrow = numpy_helper.to_array(weight).astype(np.float16)
        weight.CopyFrom(numpy_helper.from_array(narrow, weight.name))
        made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    return made


def _dilated(rank: int, size: int, channels: int, dilation: int) -> ModelProto:
    window = {"dilations": [dilation] * rank, "pads": [dilation] * 2 * rank}
    data, weights = [1, channels, *[size] * rank], [channels, channels, *[3] * rank]
    return _layer("Conv", data, weights, **window)


def _transposed(
    size: int, inputs: int, outputs: int, kernel: int, groups: int, stride: int = 2
) -> ModelProto:
    data, weights = [1, inputs, size, size], [inputs, outputs // groups, kernel, kernel]
    window = {"strides": [stride] * 2, "pads": [1] * 4}
    return _layer("ConvTranspose", data, weights, group=groups, **window)


CASES = [
    Case("dilated-12", partial(_dilated, 2, 33, 128, 12), "33x33, 128, 3x3, dilation 12"),
    Case("dilated-24", partial(_dilated, 2, 33, 128, 24), "33x33, 128, 3x3, dilation 24"),
    Case("dilated-narrow", partial(_dilated, 2, 16, 128, 12), "16x16, 128, 3x3, dilation 12"),
    Case("dilated-3d", partial(_dilated, 3, 14, 32, 6), "14x14x14, 32, 3x3x3, dilation 6"),
    Case(
        "dilated-strided",
        partial(_layer, "Conv", [1, 64, 56, 56], [64, 64, 3, 3], strides=[2, 2], dilations=[2, 2]),
        "56x56, 64, 3x3, dilation 2, stride 2",
    ),
    Case(
        "dilated-place",
        partial(_layer, "Conv", [2, 53, 13, 13, 13], [53, 1, 3, 3, 3], dilations=[6] * 3, group=53),
        "13x13x13, 53, 3x3x3, dilation 6, depthwise, to a single place",
    ),
    Case("transposed-groups", partial(_transposed, 28, 64, 64, 4, 4), "28x28, 64, 4x4, 4 groups"),
    Case("transposed-each", partial(_transposed, 28, 64, 64, 4, 64), "28x28, 64, 4x4, depthwise"),
    Case("transposed-uneven", partial(_transposed, 28, 64, 64, 3, 1), "28x28, 64, 3x3 to 55x55"),
    Case("transposed-one", partial(_transposed, 56, 128, 1, 3, 1, 1), "56x56, 128 to 1, 3x3"),
    Case("transposed-few", partial(_transposed, 28, 64, 1, 4, 1), "28x28, 64 to 1, 4x4"),
    Case("transposed-2x2", partial(_transposed, 56, 128, 1, 2, 1), "56x56, 128 to 1, 2x2"),
    Case("transposed-narrow", partial(_transposed, 4, 64, 64, 1, 1), "4x4, 64, 1x1 to 5x5"),
    Case(
        "last-3x3",
        partial(_layer, "Conv", [1, 64, 56, 56], [3, 64, 3, 3], pads=[1] * 4),
        "56x56, 64 to 3, 3x3",
    ),
    Case(
        "groups-strided",
        partial(_layer, "Conv", [1, 24, 40, 40], [160, 12, 5, 5], strides=[3, 3], group=2),
        "40x40, 24 to 160, 5x5, stride 3, 2 groups",
    ),
    Case(
        "half-1x1",
        partial(_layer, "Conv", [1, 37, 40, 40], [128, 37, 1, 1], half=True, strides=[3, 3]),
        "40x40, 37 to 128, 1x1, stride 3, float16",
    ),
    Case(
        "half-3x3",
        partial(_layer, "Conv", [1, 64, 56, 56], [64, 64, 3, 3], half=True, pads=[1] * 4),
        "56x56, 64, 3x3, float16",
    ),
    Case(
        "pool-5x5",
        partial(_layer, "MaxPool", [1, 256, 20, 20], (), kernel_shape=[5, 5], pads=[2] * 4),
        "20x20, 256, maximum of 5x5",
    ),
]
