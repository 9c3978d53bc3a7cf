"""Parts of transformers, in the form that exporters write."""

from __future__ import annotations

import math

from tcopt.frontends.onnx.building.network import Network


def split_heads(net: Network, x: str, batch: int, tokens: int, heads: int, width: int) -> str:
    """[batch, tokens, width] to [batch, heads, tokens, width / heads]."""
    shape = net.ints(batch, tokens, heads, width // heads)
    return net.add("Transpose", net.add("Reshape", x, shape), perm=[0, 2, 1, 3])


def attend(
    net: Network,
    queries: str,
    keys: str,
    values: str,
    shape: tuple[int, int, int],
    head: int,
    mask: str | None = None,
) -> str:
    """softmax(q k^T / sqrt(head)) v, heads merged.

    Args:
        queries, keys, values: [batch, heads, tokens, head].
        shape: shape of the result, [batch, tokens, width].
        mask: value added to the scores.
    """
    transposed = net.add("Transpose", keys, perm=[0, 1, 3, 2])
    scores = net.add("MatMul", queries, transposed)
    scores = net.add("Div", scores, net.scalar(math.sqrt(head)))
    if mask is not None:
        scores = net.add("Add", scores, mask)
    context = net.add("MatMul", net.add("Softmax", scores, axis=-1), values)
    context = net.add("Transpose", context, perm=[0, 2, 1, 3])
    return net.add("Reshape", context, net.ints(*shape))


def self_attention(
    net: Network, x: str, batch: int, tokens: int, heads: int, width: int, mask: str | None = None
) -> str:
    """Multi-head self-attention with its projections; `x` is [batch, tokens, width]."""
    q, k, v = (
        split_heads(net, net.linear(x, width, width), batch, tokens, heads, width) for _ in range(3)
    )
    merged = attend(net, q, k, v, (batch, tokens, width), width // heads, mask)
    return net.linear(merged, width, width)


def gelu(net: Network, x: str) -> str:
    """x (1 + erf(x / sqrt 2)) / 2, node by node."""
    erf = net.add("Erf", net.add("Div", x, net.scalar(math.sqrt(2.0))))
    return net.add("Mul", net.add("Mul", x, net.add("Add", erf, net.scalar(1.0))), net.scalar(0.5))


def feed_forward(net: Network, x: str, width: int, hidden: int, activation: str = "gelu") -> str:
    """Two dense layers with an activation between: "gelu" or an ONNX operator."""
    y = net.linear(x, width, hidden)
    y = gelu(net, y) if activation == "gelu" else net.add(activation, y)
    return net.linear(y, hidden, width)
