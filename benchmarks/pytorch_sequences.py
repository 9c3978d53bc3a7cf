"""Networks over sequences in plain PyTorch, for `benchmarks/pytorch.py`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Recurrent(nn.Module):
    """Recurrent layers over embedded tokens."""

    def __init__(self, layer: Any):
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.layer = layer(64, 128, num_layers=2, batch_first=True)
        self.last = nn.Linear(128, 1000)

    def forward(self, tokens: Tensor) -> Tensor:
        y, _ = self.layer(self.embedding(tokens))
        return self.last(y[:, -1])


class Encoder(nn.Module):
    """`nn.TransformerEncoder` over embedded tokens, with a mask of padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 128)
        self.position = nn.Parameter(torch.randn(64, 128))
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.position[: tokens.shape[1]]
        return self.encoder(x, src_key_padding_mask=tokens == 0)


class Translator(nn.Module):
    """`nn.Transformer`: an encoder, and a decoder with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Transformer(128, 4, 2, 2, 256, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.inner(source, target, tgt_mask=mask, tgt_is_causal=True)


class Attention(nn.Module):
    """Self-attention by `scaled_dot_product_attention`, with rotary positions if wanted."""

    def __init__(self, width: int, heads: int, *, causal: bool, rotary: bool = False):
        super().__init__()
        self.heads, self.causal, self.rotary = heads, causal, rotary
        self.given, self.last = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        parts = self.given(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        if self.rotary:
            q, k = _rotate(q), _rotate(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.last(y.transpose(1, 2).reshape(n, length, width))


def _rotate(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    rates = 10000 ** (-torch.arange(half, dtype=x.dtype) / half)
    angles = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * rates
    a, b = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class SwiGLU(nn.Module):
    """The feed-forward layer of Llama."""

    def __init__(self, width: int):
        super().__init__()
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A transformer layer that normalises first."""

    def __init__(self, width: int, mix: nn.Module, feed: nn.Module, norm: Any = nn.LayerNorm):
        super().__init__()
        self.mix, self.feed = nn.Sequential(norm(width), mix), nn.Sequential(norm(width), feed)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(x)
        return x + self.feed(x)


def _mlp(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))


def gpt() -> nn.Module:
    blocks = [Block(128, Attention(128, 4, causal=True), _mlp(128)) for _ in range(3)]
    return nn.Sequential(nn.Embedding(1000, 128), *blocks, nn.LayerNorm(128), nn.Linear(128, 1000))


def llama() -> nn.Module:
    blocks = [
        Block(128, Attention(128, 4, causal=True, rotary=True), SwiGLU(128), nn.RMSNorm)
        for _ in range(3)
    ]
    return nn.Sequential(nn.Embedding(1000, 128), *blocks, nn.RMSNorm(128), nn.Linear(128, 1000))


class ViT(nn.Module):
    """Patches, a class token, and transformer layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 128, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 128))
        self.position = nn.Parameter(torch.randn(1, 65, 128))
        self.blocks = nn.Sequential(
            *(Block(128, Attention(128, 4, causal=False), _mlp(128)) for _ in range(3))
        )
        self.last = nn.Linear(128, 100)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.last(self.blocks(x)[:, 0])


class Transposed(nn.Module):
    """Apply a module to the other of the last two dimensions."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.mT).mT


class Channels(nn.Module):
    """Move channels to the end."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mT


def mixer() -> nn.Module:
    blocks = [Block(128, Transposed(_mlp(64)), _mlp(128)) for _ in range(3)]
    return nn.Sequential(nn.Conv2d(3, 128, 8, 8), nn.Flatten(2), Channels(), *blocks)


class Swin(nn.Module):
    """Attention in shifted windows."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 96, 4, 4)
        self.blocks = nn.ModuleList(
            Block(96, Attention(96, 3, causal=False), _mlp(96)) for _ in range(2)
        )
        self.last = nn.Linear(96, 100)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).permute(0, 2, 3, 1)
        n, h, w, c = x.shape
        for place, block in enumerate(self.blocks):
            x = torch.roll(x, (-2 * place, -2 * place), (1, 2))
            y = x.view(n, h // 4, 4, w // 4, 4, c).transpose(2, 3).reshape(-1, 16, c)
            y = block(y).view(n, h // 4, w // 4, 4, 4, c).transpose(2, 3).reshape(n, h, w, c)
            x = torch.roll(y, (2 * place, 2 * place), (1, 2))
        return self.last(x.mean((1, 2)))


class Recommender(nn.Module):
    """DLRM: sums of embeddings, and products of all pairs of features."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(500, 32, mode="sum") for _ in range(4))
        self.dense = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.last = nn.Sequential(nn.Linear(42, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())

    def forward(self, dense: Tensor, tokens: Tensor) -> Tensor:
        x = self.dense(dense)
        parts = torch.stack([x, *(t(tokens[:, n]) for n, t in enumerate(self.tables))], 1)
        rows, columns = torch.tril_indices(5, 5, -1)
        pairs = torch.bmm(parts, parts.mT)[:, rows, columns]
        return self.last(torch.cat([x, pairs], 1))
