"""One step of a Transformer decoder (Vaswani et al. 2017, base model) with cached keys.

A batch of 32 beams, 32 tokens decoded before, 32 source tokens; 6 layers of 512.
"""

from __future__ import annotations

from onnx import ModelProto, TensorProto

from tcopt.frontends.onnx.building.network import Network
from zoo.attention import attend, feed_forward, split_heads

_BATCH, _PAST, _SOURCE = 32, 32, 32
_WIDTH, _HEADS, _LAYERS, _VOCABULARY = 512, 8, 6, 32_000
_HEAD = _WIDTH // _HEADS


def build() -> ModelProto:
    """Last tokens [32, 1] and caches to scores [32, 1, 32000] and the layers' new keys."""
    net = Network("transformer_decoder_step")
    tokens = net.input("tokens", [_BATCH, 1], TensorProto.INT64)
    outputs: dict[str, list[int]] = {}
    x = net.add("Gather", net.normal([_VOCABULARY, _WIDTH], 0.5), tokens, axis=0)
    x = net.add("Add", x, net.normal([1, 1, _WIDTH], 0.2))
    for layer in range(_LAYERS):
        x = net.layer_norm(net.add("Add", x, _cached(net, x, layer, outputs)), _WIDTH)
        x = net.layer_norm(net.add("Add", x, _across(net, x, layer)), _WIDTH)
        x = net.layer_norm(net.add("Add", x, feed_forward(net, x, _WIDTH, 2048, "Relu")), _WIDTH)
    scores = net.linear(x, _WIDTH, _VOCABULARY)
    return net.model(**{scores: [_BATCH, 1, _VOCABULARY]}, **outputs)


def _cached(net: Network, x: str, layer: int, outputs: dict[str, list[int]]) -> str:
    """Attention to the decoded tokens and this step, whose keys are appended to the cache."""
    q, k, v = (
        split_heads(net, net.linear(x, _WIDTH, _WIDTH), _BATCH, 1, _HEADS, _WIDTH) for _ in range(3)
    )
    shape = [_BATCH, _HEADS, _PAST, _HEAD]
    keys, values = (
        net.add("Concat", net.input(f"past_{kind}_{layer}", shape), new, axis=2)
        for kind, new in (("keys", k), ("values", v))
    )
    for cache in (keys, values):
        outputs[cache] = [_BATCH, _HEADS, _PAST + 1, _HEAD]
    merged = attend(net, q, keys, values, (_BATCH, 1, _WIDTH), _HEAD)
    return net.linear(merged, _WIDTH, _WIDTH)


def _across(net: Network, x: str, layer: int) -> str:
    """Attention to the encoder's result, whose keys and values are inputs."""
    shape = [_BATCH, _HEADS, _SOURCE, _HEAD]
    q = split_heads(net, net.linear(x, _WIDTH, _WIDTH), _BATCH, 1, _HEADS, _WIDTH)
    keys, values = (net.input(f"source_{kind}_{layer}", shape) for kind in ("keys", "values"))
    merged = attend(net, q, keys, values, (_BATCH, 1, _WIDTH), _HEAD)
    return net.linear(merged, _WIDTH, _WIDTH)
