"""Cross-layer equalisation: equal weight ranges of the channels between two layers.

After Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction" (2019):
if f(s x) = s f(x) for s > 0, the channels of a layer's result can be divided by arbitrary factors
by which the next layer's weights are multiplied. With s = sqrt(r1 / r2), where r1 and r2 are the
ranges of a channel's weights in both layers, these ranges become equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from tcopt.quantization.onnx_graph import OnnxGraph, attributes_of, is_standard
from tcopt.quantization.patterns import OnnxPattern, only_user

_HOMOGENEOUS = ("Relu", "LeakyRelu", "PRelu", "Identity", "MaxPool", "AveragePool", "Dropout")
"""Operators that commute with a positive factor per channel."""

_CLOSE = 1e-2
"""Maximum relative change of a channel at which ranges count as equal."""

_LARGEST = 1e4
"""Maximum scale factor of a channel, which protects channels whose weights are almost zero."""


class EqualizeLayers(OnnxPattern):
    """Equalise the weight ranges of two consecutive layers, channel by channel.

        y = Conv(Relu(Conv(x, w1, b1)), w2)
    ->
        y = Conv(Relu(Conv(x, w1 / s, b1 / s)), w2 * s)

    In a chain of layers the ranges of one pair affect the next, so the pattern applies until all
    ranges are equal, at most `sweeps` times for each layer.
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
    """Return a convolution's weights as a matrix with a row for each result channel."""
    if not is_standard(node, "Conv") or (
        len(node.input) > 2 and node.input[2] and (graph.array(node.input[2]) is None)
    ):
        return None
    weights = graph.array(node.input[1])
    if weights is None or weights.dtype != np.float32:
        return None
    return weights.reshape(weights.shape[0], -1).astype(np.float64)


def _weights_in(graph: OnnxGraph, node: NodeProto) -> NDArray[np.float64] | None:
    """Return a convolution's weights as a matrix with a row for each data channel."""
    if not is_standard(node, "Conv"):
        return None
    weights = graph.array(node.input[1])
    if weights is None or weights.dtype != np.float32:
        return None
    return _by_input(weights, _group(node)).astype(np.float64)


def _by_input(weights: NDArray[np.float32], group: int) -> NDArray[np.float32]:
    # [groups, result channels per group, data channels per group, ...]
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
