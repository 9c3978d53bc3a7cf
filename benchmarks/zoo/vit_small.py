"""ViT-S/16 (Dosovitskiy et al. 2020; Touvron et al. 2020): 12 layers of 384."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network
from zoo.attention import feed_forward, self_attention

_PATCH, _WIDTH, _HEADS, _LAYERS = 16, 384, 6, 12
_TOKENS = (224 // _PATCH) ** 2 + 1


def build() -> ModelProto:
    """Image [1, 3, 224, 224] to scores [1, 1000]."""
    net = Network("vit_small")
    x = net.input("image", [1, 3, 224, 224])
    w = net.normal([_WIDTH, 3, _PATCH, _PATCH], (3 * _PATCH * _PATCH) ** -0.5)
    strides = [_PATCH, _PATCH]
    x = net.add("Conv", x, w, net.normal([_WIDTH], 0.1), kernel_shape=strides, strides=strides)
    x = net.add("Reshape", x, net.ints(1, _WIDTH, _TOKENS - 1))
    x = net.add("Transpose", x, perm=[0, 2, 1])
    x = net.add("Concat", net.normal([1, 1, _WIDTH], 0.2), x, axis=1)
    x = net.add("Add", x, net.normal([1, _TOKENS, _WIDTH], 0.2))
    for _ in range(_LAYERS):
        y = self_attention(net, net.layer_norm(x, _WIDTH), 1, _TOKENS, _HEADS, _WIDTH)
        x = net.add("Add", x, y)
        x = net.add("Add", x, feed_forward(net, net.layer_norm(x, _WIDTH), _WIDTH, 4 * _WIDTH))
    x = net.add("Gather", net.layer_norm(x, _WIDTH), net.weight(np.array(0, np.int64)), axis=1)
    return net.model(**{net.gemm(x, _WIDTH, 1000): [1, 1000]})
