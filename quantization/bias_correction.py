"""Bias correction: subtract the mean error of rounded weights from the bias.

After Nagel et al. (2019): rounded weights W + e shift the mean of a channel by e E[x]. E[x] is the
mean of each input channel on the calibration data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.quantization.calibration import channel_statistics
from tcopt.quantization.data import Feeds
from tcopt.quantization.layers import QuantizableLayer
from tcopt.quantization.onnx_graph import OnnxGraph, attributes_of
from tcopt.quantization.weights import WeightSettings, bias_of, weight_parameters

Array = NDArray[Any]


def bias_shifts(
    graph: OnnxGraph,
    layers: Sequence[QuantizableLayer],
    samples: Sequence[Feeds],
    settings: WeightSettings,
) -> dict[str, Array]:
    """Return the bias corrections by layer name, for the layers that have or can get a bias."""
    layers = [layer for layer in layers if _can(graph, layer)]
    axes = {layer.sources[0]: layer.channel for layer in layers}
    means = channel_statistics(graph, axes, samples, "mean")
    shifts: dict[str, Array] = {}
    for layer in layers:
        assert layer.weight is not None
        weights = graph.array(layer.node.input[layer.weight.place])
        assert weights is not None
        parameters = weight_parameters(layer, weights, settings)
        change = parameters.rounded(weights).astype(np.float64) - weights
        mean = means[layer.sources[0]].reshape(-1)
        shifts[layer.name] = _mean_of_products(layer, change, mean)
    return shifts


def _can(graph: OnnxGraph, layer: QuantizableLayer) -> bool:
    """Whether a layer has weights, and a constant bias or none yet."""
    if layer.weight is None or layer.operator not in ("Conv", "Gemm"):
        return False
    has = len(layer.node.input) > 2 and bool(layer.node.input[2])
    return bias_of(graph, layer) is not None if has else True


def _mean_of_products(layer: QuantizableLayer, change: Array, mean: Array) -> Array:
    """Return the mean change of each result channel due to a change of the weights."""
    if layer.operator == "Gemm":
        turned = bool(attributes_of(layer.node).get("transB", 0))
        return (change if turned else change.T) @ mean
    group = int(attributes_of(layer.node).get("group", 1))
    sums = change.reshape(*change.shape[:2], -1).sum(axis=2)
    parts = sums.reshape(group, -1, change.shape[1])
    return np.einsum("goi,gi->go", parts, mean.reshape(group, -1)).reshape(-1)
