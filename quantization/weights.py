"""Quantisation of weights and biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.quantization.layers import QuantizableLayer
from tcopt.quantization.onnx_graph import OnnxGraph
from tcopt.quantization.parameters import Integer, Parameters, bias_integers, parameters_for
from tcopt.support.errors import InputError

Array = NDArray[Any]

_SHARES = np.linspace(0.5, 1.0, 26)


@dataclass(frozen=True)
class WeightSettings:
    """Settings for the quantisation of weights.

    Attributes:
        per_channel: whether each result channel has its own scale.
        symmetric: whether the zero point is 0.
        power_of_two: whether scales are powers of two.
        clipped: whether the largest weights may be clipped if that minimises the squared error.
    """

    per_channel: bool = True
    symmetric: bool = True
    power_of_two: bool = False
    clipped: bool = True


def weight_parameters(
    layer: QuantizableLayer, weights: Array, settings: WeightSettings
) -> Parameters:
    """Return the quantisation parameters of a layer's weights.

    Raises:
        InputError: the weights are not finite.
    """
    assert layer.weight is not None
    if not np.isfinite(weights).all():
        raise InputError(f"the weights of '{layer.name}' are not finite")
    axis = layer.weight.axis if settings.per_channel else None
    own = 0 if axis is None else axis
    rows = weights.reshape(1, -1) if axis is None else _rows(weights, own)
    low, high = rows.min(axis=1, initial=0.0), rows.max(axis=1, initial=0.0)

    def made(share: Array | float) -> Parameters:
        return parameters_for(
            low * share,
            high * share,
            Integer.INT8,
            symmetric=settings.symmetric,
            power_of_two=settings.power_of_two,
            axis=0,
        )

    best = made(1.0)
    if settings.clipped:
        shares = np.ones(len(rows))
        least = _errors(rows, best)
        for share in _SHARES:
            errors = _errors(rows, made(float(share)))
            shares = np.where(errors < least, share, shares)
            least = np.minimum(errors, least)
        best = made(shares)
    if axis is None:
        return Parameters(best.scale.reshape(()), best.zero.reshape(()))
    return Parameters(best.scale, best.zero, axis)


def _rows(weights: Array, axis: int) -> Array:
    return np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)


def _errors(rows: Array, parameters: Parameters) -> Array:
    return np.square(parameters.rounded(rows) - rows).sum(axis=1)


def bias_of(graph: OnnxGraph, layer: QuantizableLayer) -> Array | None:
    """Return the bias of a layer if it is a constant; otherwise None."""
    return None if layer.bias is None else graph.array(layer.node.input[layer.bias])


def quantized_bias(
    bias: Array, data: Parameters, weights: Parameters
) -> tuple[Array, Array] | None:
    """Return the integers of a bias and their scale, that of the accumulator; None on overflow."""
    scale = (data.scale * weights.scale).astype(np.float32)
    # An underflowing scale would make every bias zero.
    if not np.all(scale > 0):
        return None
    integers = bias_integers(bias, np.broadcast_to(scale, bias.shape))
    return None if integers is None else (integers, scale)
