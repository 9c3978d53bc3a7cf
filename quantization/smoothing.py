"""SmoothQuant: moves outliers of activations from a normalisation into the following weights.

After Xiao et al., "SmoothQuant" (2023): channel j of a layer norm's result is divided by s_j =
max|X_j|^strength / max|W_j|^(1 - strength), and row j of the weights is multiplied by it. The
division is folded into the scale and shift of the norm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from tcopt.quantization.calibration import channel_statistics
from tcopt.quantization.data import Feeds
from tcopt.quantization.onnx_graph import OnnxGraph, attributes_of, is_standard
from tcopt.quantization.patterns import OnnxPattern, rewrite

Array = NDArray[Any]
STRENGTH = 0.5


@dataclass(frozen=True)
class _Norm:
    """Scale and shift of a normalised value.

    Attributes:
        value: the value to smooth.
        operands: nodes, and indices of their constants that absorb a factor per channel.
    """

    value: str
    operands: tuple[tuple[NodeProto, int], ...]


def smooth(graph: OnnxGraph, samples: Sequence[Feeds], strength: float = STRENGTH) -> int:
    """Smooth all values that allow it; return their number."""
    norms = [norm for node in graph.nodes if (norm := _norm(graph, node)) is not None]
    norms = [norm for norm in norms if _products(graph, norm.value)]
    if not norms:
        return 0
    axes = {norm.value: -1 for norm in norms}
    magnitudes = channel_statistics(graph, axes, samples, "magnitude")
    return rewrite(graph, [SmoothNorm(magnitudes, strength)])


class SmoothNorm(OnnxPattern):
    """Move the magnitudes of a norm's channels into the products that use it.

        y = MatMul(LayerNormalization(x, scale, shift), w)
    ->
        y = MatMul(LayerNormalization(x, scale / s, shift / s), s * w)

    A scale and shift by separate Mul and Add nodes is matched as well.
    """

    def __init__(self, magnitudes: Mapping[str, Array], strength: float):
        self.magnitudes = dict(magnitudes)
        self.strength = strength

    def match_and_rewrite(self, graph: OnnxGraph, node: NodeProto) -> bool:
        norm = _norm(graph, node)
        if norm is None or norm.value not in self.magnitudes:
            return False
        products = _products(graph, norm.value)
        data = self.magnitudes.pop(norm.value).astype(np.float64)
        weights = np.max([_row_magnitudes(graph, product) for product in products], axis=0)
        known = (data > 0) & (weights > 0)
        scale = np.where(known, data, 1.0) ** self.strength
        scale /= np.where(known, weights, 1.0) ** (1 - self.strength)
        scale = np.where(known, np.clip(scale, 1e-5, 1e5), 1.0)
        for each, place in norm.operands:
            value = graph.array(each.input[place])
            assert value is not None
            graph.set_constant(each, place, (value / scale).astype(value.dtype))
        for product in products:
            value = graph.array(product.input[1])
            assert value is not None
            turned = bool(attributes_of(product).get("transB", 0))
            rows = scale if turned else scale.reshape(-1, 1)
            graph.set_constant(product, 1, (value * rows).astype(value.dtype))
        return True


def _norm(graph: OnnxGraph, node: NodeProto) -> _Norm | None:
    """Return the norm that ends at a node; None if there is none."""
    if is_standard(node, "LayerNormalization", "RMSNormalization"):
        axis, rank = attributes_of(node).get("axis", -1), graph.rank(node.input[0])
        places = [place for place in range(1, len(node.input)) if node.input[place]]
        if axis not in (-1, None if rank is None else rank - 1):
            return None
        return _checked(graph, _Norm(node.output[0], tuple((node, place) for place in places)))
    if not is_standard(node, "Add"):
        return None
    shifts = [place for place in (0, 1) if node.input[place] in graph.constants]
    if len(shifts) != 1:
        return None
    scaled = graph.producers.get(node.input[1 - shifts[0]])
    if scaled is None or not is_standard(scaled, "Mul") or len(graph.users[scaled.output[0]]) != 1:
        return None
    scales = [place for place in (0, 1) if scaled.input[place] in graph.constants]
    if len(scales) != 1 or graph.is_output(scaled.output[0]):
        return None
    return _checked(graph, _Norm(node.output[0], ((scaled, scales[0]), (node, shifts[0]))))


def _checked(graph: OnnxGraph, norm: _Norm) -> _Norm | None:
    """Return the norm if all its constants are f32 vectors; otherwise None."""
    arrays = [graph.array(node.input[place]) for node, place in norm.operands]
    fits = all(a is not None and a.ndim == 1 and a.dtype == np.float32 for a in arrays)
    sizes = {a.size for a in arrays if a is not None}
    return norm if fits and len(sizes) == 1 and 1 not in sizes else None


def _products(graph: OnnxGraph, value: str) -> list[NodeProto]:
    """Return the products of a value with weights; empty if it has other users."""
    users = graph.users.get(value, [])
    if graph.is_output(value) or not all(_is_product(graph, user, value) for user in users):
        return []
    return users


def _is_product(graph: OnnxGraph, node: NodeProto, value: str) -> bool:
    if not is_standard(node, "MatMul", "Gemm") or node.input[0] != value:
        return False
    attributes = attributes_of(node)
    weights = node.input[1]
    plain = not attributes.get("transA", 0) and list(node.input).count(value) == 1
    return plain and weights in graph.constants and graph.rank(weights) == 2


def _row_magnitudes(graph: OnnxGraph, node: NodeProto) -> Array:
    """Return the maximum absolute weight for each data channel."""
    value = graph.array(node.input[1])
    assert value is not None
    turned = bool(attributes_of(node).get("transB", 0))
    return np.abs(value).max(axis=0 if turned else 1)
