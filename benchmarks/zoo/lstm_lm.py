"""A word language model (Zaremba et al. 2014, medium): two LSTM layers of 650, 35 steps."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto

from tcopt.frontends.onnx.building.network import Network

_STEPS, _WIDTH, _LAYERS, _VOCABULARY = 35, 650, 2, 10_000


def build(batch: int = 1) -> ModelProto:
    """Tokens [35, batch] to scores [35, batch, 10000]."""
    net = Network("lstm_lm")
    tokens = net.input("tokens", [_STEPS, batch], TensorProto.INT64)
    x = net.add("Gather", net.normal([_VOCABULARY, _WIDTH], 0.5), tokens, axis=0)
    state = net.weight(np.zeros((1, batch, _WIDTH), np.float32))
    for _ in range(_LAYERS):
        weights = [net.normal([1, 4 * _WIDTH, _WIDTH], _WIDTH**-0.5) for _ in range(2)]
        bias = net.normal([1, 8 * _WIDTH], 0.1)
        x = net.add("LSTM", x, *weights, bias, "", state, state, hidden_size=_WIDTH)
        # Steps, directions, batch and width: one direction.
        x = net.add("Squeeze", x, net.ints(1))
    return net.model(**{net.linear(x, _WIDTH, _VOCABULARY): [_STEPS, batch, _VOCABULARY]})
