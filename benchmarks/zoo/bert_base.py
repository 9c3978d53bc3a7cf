"""The BERT-base encoder (Devlin et al. 2018): 12 layers of 768, sequence 128."""

from __future__ import annotations

from onnx import ModelProto, TensorProto

from tcopt.frontends.onnx.building.network import Network
from zoo.attention import feed_forward, self_attention

_TOKENS, _WIDTH, _HEADS, _LAYERS, _VOCABULARY = 128, 768, 12, 12, 30522


def build(batch: int = 1) -> ModelProto:
    """Token ids and mask [batch, 128] to hidden states [batch, 128, 768]."""
    net = Network("bert_base")
    ids = net.input("input_ids", [batch, _TOKENS], TensorProto.INT64)
    mask = net.input("attention_mask", [batch, _TOKENS], TensorProto.INT64)
    x = net.add("Gather", net.normal([_VOCABULARY, _WIDTH], 0.5), ids, axis=0)
    x = net.layer_norm(net.add("Add", x, net.normal([1, _TOKENS, _WIDTH], 0.2)), _WIDTH)
    mask = net.add("Cast", net.add("Unsqueeze", mask, net.ints(1, 2)), to=TensorProto.FLOAT)
    mask = net.add("Mul", net.add("Sub", net.scalar(1.0), mask), net.scalar(-10000.0))
    for _ in range(_LAYERS):
        y = self_attention(net, x, batch, _TOKENS, _HEADS, _WIDTH, mask)
        x = net.layer_norm(net.add("Add", x, y), _WIDTH)
        y = feed_forward(net, x, _WIDTH, 4 * _WIDTH)
        x = net.layer_norm(net.add("Add", x, y), _WIDTH)
    return net.model(**{x: [batch, _TOKENS, _WIDTH]})
