"""Cross-layer equalisation: channels between two layers get ranges that are alike.

After Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction"
(2019): where f(s x) = s f(x) for s > 0, the channels of a layer's result may be divided by any
numbers that the next layer's weights are multiplied by. With s = sqrt(r1 / r2), where r1 and r2
are the ranges of a channel's weights in both layers, these become the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from tcopt.quantization.onnx_graph import OnnxGraph, attributes_of, is_standard
from tcopt.quantization.patterns import OnnxPattern, only_user

_HOMOGENEOUS = ("Relu", "LeakyRelu", "PRelu", "Identity", "MaxPool", "AveragePool", "Dropout")
"""Operators that a positive factor for each channel may be moved through."""

_CLOSE = 1e-2
"""Ranges are alike when no channel would change by more than this part."""

_LARGEST = 1e4
"""No channel is scaled by more: what has vanished in a network stays as it is."""


class EqualizeLayers(OnnxPattern):
    """Give the weights of two layers in a row equal ranges, channel by channel.

        y = Conv(Relu(Conv(x, w1, b1)), w2)
    ->
        y = Conv(Relu(Conv(x, w1 / s, b1 / s)), w2 * s)

    In a chain of layers the ranges of one pair depend on the next, so the pattern is there until
    all are alike, at most `sweeps` times for each.
    """

    def __init__(self, sweeps: int = 20):
        self.sweeps = sweeps
        self._counts: dict[str, int] = {}

    def match_and_rewrite(self, graph: OnnxGraph, node: NodeProto) -> bool:
        first = _weights_out(graph, node)
        if first is None or self._counts.get(node.output[0], 0) >= self.sweeps:
            return False
        user = only_user(graph, node.output[0])
        while user is not None and is_standard(user, *_HOMOGENEOUS):
            if user.op_type == "PRelu" and not _is_one_slope(graph, user):
                return False
            user = only_user(graph, user.output[0])
        if user is None:
            return False
        second = _weights_in(graph, user)
        if second is None or second.shape[0] != first.shape[0]:
            return False
        ranges = [np.abs(rows).max(axis=1, initial=0.0) for rows in (first, second)]
        scale = _scales(*ranges)
        if np.max(np.abs(scale - 1)) < _CLOSE:
            return False
        self._counts[node.output[0]] = self._counts.get(node.output[0], 0) + 1
        _scale_out(graph, node, 1 / scale)
        _scale_in(graph, user, scale)
        return True


def _scales(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    known = (first > 0) & (second > 0)
    product = np.sqrt(np.where(known, first, 1.0) / np.where(known, second, 1.0))
    return np.clip(np.where(known, product, 1.0), 1 / _LARGEST, _LARGEST)


def _is_one_slope(graph: OnnxGraph, node: NodeProto) -> bool:
    return node.input[1] in graph.constants


def _group(node: NodeProto) -> int:
    return int(attributes_of(node).get("group", 1))


def _weights_out(graph: OnnxGraph, node: NodeProto) -> NDArray[np.float64] | None:
    """A convolution's weights as rows, one for each channel of the result."""
    if not is_standard(node, "Conv") or (
        len(node.input) > 2 and node.input[2] and (graph.array(node.input[2]) is None)
    ):
        return None
    weights = graph.array(node.input[1])
    if weights is None or weights.dtype != np.float32:
        return None
    return weights.reshape(weights.shape[0], -1).astype(np.float64)


def _weights_in(graph: OnnxGraph, node: NodeProto) -> NDArray[np.float64] | None:
    """A convolution's weights as rows, one for each channel of the data."""
    if not is_standard(node, "Conv"):
        return None
    weights = graph.array(node.input[1])
    if weights is None or weights.dtype != np.float32:
        return None
    return _by_input(weights, _group(node)).astype(np.float64)


def _by_input(weights: NDArray[np.float32], group: int) -> NDArray[np.float32]:
    # [groups, channels of the result in each, channels of the data in each, ...]
    parts = weights.reshape(group, weights.shape[0] // group, weights.shape[1], -1)
    return np.moveaxis(parts, 2, 1).reshape(group * weights.shape[1], -1)


def _scale_out(graph: OnnxGraph, node: NodeProto, scale: NDArray[np.float64]) -> None:
    weights = graph.array(node.input[1])
    assert weights is not None
    column = scale.reshape(-1, *[1] * (weights.ndim - 1))
    graph.set_constant(node, 1, (weights * column).astype(np.float32))
    bias = graph.array(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if bias is not None:
        graph.set_constant(node, 2, (bias * scale).astype(np.float32))


def _scale_in(graph: OnnxGraph, node: NodeProto, scale: NDArray[np.float64]) -> None:
    weights, group = graph.array(node.input[1]), _group(node)
    assert weights is not None
    own = weights.shape[1]
    laid = scale.reshape(group, 1, own, *[1] * (weights.ndim - 2))
    parts = weights.reshape(group, weights.shape[0] // group, own, *weights.shape[2:])
    graph.set_constant(node, 1, (parts * laid).reshape(weights.shape).astype(np.float32))
