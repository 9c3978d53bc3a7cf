"""Transformer test networks in the form that exporters write: a ViT block and a BERT block."""

from __future__ import annotations

import math

import numpy as np
from onnx import ModelProto, TensorProto

from models.network import Network


def _split_heads(net: Network, x: str, batch: int, tokens: int, heads: int, width: int) -> str:
    shape = net.ints(batch, tokens, heads, width // heads)
    return net.add("Transpose", net.add("Reshape", x, shape), perm=[0, 2, 1, 3])


def _attention(
    net: Network, x: str, batch: int, tokens: int, heads: int, width: int, mask: str | None = None
) -> str:
    """Multi-head self-attention with separate query, key and value projections."""
    q, k, v = (
        _split_heads(net, net.linear(x, width, width), batch, tokens, heads, width)
        for _ in range(3)
    )
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.add("Div", scores, net.scalar(math.sqrt(width // heads)))
    if mask is not None:
        scores = net.add("Add", scores, mask)
    context = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
    context = net.add("Transpose", context, perm=[0, 2, 1, 3])
    merged = net.add("Reshape", context, net.ints(batch, tokens, width))
    return net.linear(merged, width, width)


def _erf_gelu(net: Network, x: str) -> str:
    """GELU as exporters before opset 20 spell it: x * (1 + erf(x / sqrt 2)) / 2."""
    erf = net.add("Erf", net.add("Div", x, net.scalar(math.sqrt(2.0))))
    return net.add("Mul", net.add("Mul", x, net.add("Add", erf, net.scalar(1.0))), net.scalar(0.5))


def _decomposed_layer_norm(net: Network, x: str, width: int) -> str:
    """Layer normalisation as exporters before opset 17 spell it."""
    centred = net.add("Sub", x, net.add("ReduceMean", x, axes=[-1]))
    variance = net.add("ReduceMean", net.add("Pow", centred, net.scalar(2.0)), axes=[-1])
    deviation = net.add("Sqrt", net.add("Add", variance, net.scalar(1e-5)))
    normal = net.add("Mul", net.add("Div", centred, deviation), net.normal([width], 0.1, 1.0))
    return net.add("Add", normal, net.normal([width], 0.1))


def _mlp(net: Network, x: str, width: int, expansion: int = 4) -> str:
    hidden = _erf_gelu(net, net.linear(x, width, expansion * width))
    return net.linear(hidden, expansion * width, width)


def vit_block(
    image: int = 32,
    patch: int = 8,
    width: int = 64,
    heads: int = 4,
    classes: int = 10,
    seed: int = 0,
) -> ModelProto:
    """Patch embedding, class token, positions, one pre-norm encoder block and the head."""
    net = Network("vit_block", seed=seed)
    x = net.input("image", [1, 3, image, image])
    w = net.normal([width, 3, patch, patch], (3 * patch * patch) ** -0.5)
    bias = net.normal([width], 0.1)
    x = net.add("Conv", x, w, bias, kernel_shape=[patch, patch], strides=[patch, patch])
    # The exporter computes the flattened shape from the value's own.
    batch = net.add("Gather", net.add("Shape", x), net.weight(np.array(0, np.int64)), axis=0)
    batch = net.add("Unsqueeze", batch, net.ints(0))
    flat = net.add("Concat", batch, net.ints(width), net.ints(-1), axis=0)
    x = net.add("Transpose", net.add("Reshape", x, flat), perm=[0, 2, 1])
    x = net.add("Concat", net.normal([1, 1, width], 0.2), x, axis=1)
    tokens = (image // patch) ** 2 + 1
    x = net.add("Add", x, net.normal([1, tokens, width], 0.2))
    x = net.add("Add", x, _attention(net, net.layer_norm(x, width), 1, tokens, heads, width))
    x = net.add("Add", x, _mlp(net, net.layer_norm(x, width), width))
    x = net.add("Gather", net.layer_norm(x, width), net.weight(np.array(0, np.int64)), axis=1)
    return net.model(**{net.gemm(x, width, classes): [1, classes]})


def bert_block(
    tokens: int = 16, width: int = 64, heads: int = 4, vocabulary: int = 100, seed: int = 0
) -> ModelProto:
    """Embeddings, the attention mask and one post-norm encoder block."""
    net = Network("bert_block", seed=seed, opset=14)
    ids = net.input("input_ids", [1, tokens], TensorProto.INT64)
    mask = net.input("attention_mask", [1, tokens], TensorProto.INT64)
    x = net.add("Gather", net.normal([vocabulary, width], 1.0), ids, axis=0)
    positions = net.add("Slice", net.normal([512, width], 0.2), net.ints(0), net.ints(tokens))
    x = _decomposed_layer_norm(net, net.add("Add", x, positions), width)
    mask = net.add("Unsqueeze", mask, net.ints(1, 2))
    mask = net.add("Cast", mask, to=TensorProto.FLOAT)
    mask = net.add("Mul", net.add("Sub", net.scalar(1.0), mask), net.scalar(-10000.0))
    attended = _attention(net, x, 1, tokens, heads, width, mask)
    x = _decomposed_layer_norm(net, net.add("Add", x, attended), width)
    x = _decomposed_layer_norm(net, net.add("Add", x, _mlp(net, x, width)), width)
    return net.model(**{x: [1, tokens, width]})
