"""Definitions of fused operators of PyTorch that its exporter has no ONNX form of.

`nn.TransformerEncoderLayer` and `nn.MultiheadAttention` call them in evaluation mode.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import ExportedProgram

_OF_LENGTHS, _OF_PADDING = 0, 1
"""Kinds of masks: [queries, keys], and [batch, keys]; others are [batch, heads, queries, keys]."""


def decomposed(program: ExportedProgram) -> ExportedProgram:
    """Return a program in which the fused operators are replaced by their definitions."""
    targets = {node.target for node in program.graph.nodes}
    if targets.isdisjoint(_DEFINITIONS):
        return program
    return program.run_decompositions(dict(_DEFINITIONS))


def _scores_mask(mask: Tensor | None, kind: int | None) -> Tensor | None:
    """Return which scores count, in a form that broadcasts to [batch, heads, queries, keys].

    Args:
        mask: is nonzero for scores that do not count.
    """
    if mask is None:
        return None
    counts = mask.to(torch.bool).logical_not()
    return counts[:, None, None] if kind == _OF_PADDING else counts


def _heads(x: Tensor, heads: int) -> Tensor:
    """Return [batch, heads, length, depth]."""
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Define `aten._native_multi_head_attention`."""
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    q, k, v = (
        _heads(F.linear(x, weight, bias), num_head)
        for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    counts = _scores_mask(mask, mask_type)
    joined = F.scaled_dot_product_attention(q, k, v, attn_mask=counts)
    y = F.linear(joined.transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return y, query.new_empty(0)
    scores = q @ k.transpose(-2, -1) * (embed_dim // num_head) ** -0.5
    if counts is not None:
        scores = scores.masked_fill(counts.logical_not(), float("-inf"))
    found = scores.softmax(-1)
    return y, found.mean(1) if average_attn_weights else found


def _encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Define `aten._transformer_encoder_layer_fwd`."""

    def attend(x: Tensor) -> Tensor:
        qkv = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        y, _ = _attention(x, x, x, embed_dim, num_heads, *qkv, mask, False, True, mask_type)
        return y

    def feed_forward(x: Tensor) -> Tensor:
        wide = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(wide) if use_gelu else wide.relu(), ffn_weight_2, ffn_bias_2)

    def add(apply: Callable[[Tensor], Tensor], x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        if norm_first:
            return x + apply(F.layer_norm(x, (embed_dim,), weight, bias, eps))
        return F.layer_norm(x + apply(x), (embed_dim,), weight, bias, eps)

    x = add(attend, src, norm_weight_1, norm_bias_1)
    return add(feed_forward, x, norm_weight_2, norm_bias_2)


_DEFINITIONS: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten._native_multi_head_attention.default: _attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}
