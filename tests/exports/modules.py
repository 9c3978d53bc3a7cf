"""Architectures that torchvision does not have, implemented as in their papers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class UNet(nn.Module):
    """Ronneberger et al. 2015, with batch norms; `upsample` is `transpose` or a mode of Resize."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32), upsample: str = "transpose"):
        super().__init__()
        ins = (3, *widths[:-1])
        self.downs = nn.ModuleList(_double_conv(i, o) for i, o in zip(ins, widths, strict=True))
        self.ups = nn.ModuleList()
        self.joins = nn.ModuleList()
        for deep, shallow in zip(widths[:0:-1], widths[-2::-1], strict=True):
            if upsample == "transpose":
                self.ups.append(nn.ConvTranspose2d(deep, shallow, 2, 2))
            else:
                scale = nn.Upsample(scale_factor=2, mode=upsample)
                self.ups.append(nn.Sequential(scale, nn.Conv2d(deep, shallow, 1)))
            self.joins.append(_double_conv(2 * shallow, shallow))
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        kept = []
        x = image
        for level, down in enumerate(self.downs):
            x = down(x if level == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, join, skipped in zip(self.ups, self.joins, kept[-2::-1], strict=True):
            x = join(torch.cat([skipped, up(x)], dim=1))
        return self.head(x)


def _double_conv(ins: int, outs: int) -> nn.Module:
    layers = []
    for width in (ins, outs):
        layers += [nn.Conv2d(width, outs, 3, padding=1, bias=False), nn.BatchNorm2d(outs)]
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class Detector(nn.Module):
    """A one-stage detector in the manner of YOLOv5: two scales, boxes decoded on a grid.

    The boxes with the highest scores come first, in corner format.
    """

    def __init__(self, classes: int = 5, width: int = 16, best: int = 20):
        super().__init__()
        self.classes, self.best = classes, best
        self.stem = nn.Sequential(_conv(3, width, 2), _conv(width, width, 2))
        self.fine = _Bottleneck(width)
        self.coarse = nn.Sequential(_conv(width, width, 2), _Pyramid(width))
        self.merge = _conv(2 * width, width, 1)
        anchors = torch.tensor([[[10.0, 13.0], [16.0, 30.0]], [[30.0, 61.0], [62.0, 45.0]]])
        self.register_buffer("anchors", anchors)
        self.heads = nn.ModuleList(nn.Conv2d(width, 2 * (5 + classes), 1) for _ in range(2))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.fine(self.stem(image))
        deep = self.coarse(x)
        up = F.interpolate(deep, scale_factor=2.0, mode="nearest")
        features = (self.merge(torch.cat([up, x], dim=1)), deep)
        rows = [
            self._decode(head(value), anchors, stride)
            for head, value, anchors, stride in zip(
                self.heads, features, self.anchors, (4, 8), strict=True
            )
        ]
        found = torch.cat(rows, dim=1)
        boxes, scores = found[..., :4], found[..., 4:5] * found[..., 5:]
        score, label = scores.max(dim=-1)
        score, order = torch.topk(score, self.best, dim=1)
        corners = boxes.gather(1, order.unsqueeze(-1).expand(-1, -1, 4))
        middle, size = corners[..., :2], corners[..., 2:]
        return torch.cat([middle - size / 2, middle + size / 2], -1), score, label.gather(1, order)

    def _decode(self, x: Tensor, anchors: Tensor, stride: int) -> Tensor:
        batch, _, height, width = x.shape
        x = x.view(batch, 2, 5 + self.classes, height, width).permute(0, 1, 3, 4, 2).sigmoid()
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        grid = torch.stack([columns, rows], dim=-1).to(x.dtype)
        middle = (x[..., 0:2] * 2 - 0.5 + grid) * stride
        size = (x[..., 2:4] * 2) ** 2 * anchors.view(1, 2, 1, 1, 2)
        return torch.cat([middle, size, x[..., 4:]], -1).view(batch, -1, 5 + self.classes)


def _conv(ins: int, outs: int, stride: int = 1) -> nn.Module:
    conv = nn.Conv2d(ins, outs, 3, stride, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outs), nn.SiLU())


class _Bottleneck(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.inner = nn.Sequential(_conv(width // 2, width // 2), _conv(width // 2, width // 2))

    def forward(self, x: Tensor) -> Tensor:
        kept, worked = x.chunk(2, dim=1)
        return torch.cat([kept, worked + self.inner(worked)], dim=1)


class _Pyramid(nn.Module):
    """Spatial pyramid pooling: the same window applied one, two and three times."""

    def __init__(self, width: int):
        super().__init__()
        self.merge = _conv(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for _ in range(3):
            values.append(F.max_pool2d(values[-1], 5, 1, 2))
        return self.merge(torch.cat(values, dim=1))


class Gpt2(nn.Module):
    """Radford et al. 2019: decodes tokens with a growing cache of keys and values."""

    def __init__(self, vocabulary: int = 64, width: int = 32, heads: int = 4, layers: int = 2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(64, width)
        self.layers = nn.ModuleList(_Gpt2Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, input_ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        length, before = input_ids.shape[1], past[0].shape[2]
        places = torch.arange(before, before + length, device=input_ids.device)
        x = self.tokens(input_ids) + self.places(places)
        present = []
        for number, layer in enumerate(self.layers):
            x, key, value = layer(x, past[2 * number], past[2 * number + 1])
            present += [key, value]
        return (self.norm(x) @ self.tokens.weight.T, *present)


class _Gpt2Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, width = x.shape
        parts = self.attend(self.first(x)).split(width, dim=2)
        query, new_key, new_value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts
        )
        key, value = torch.cat([key, new_key], dim=2), torch.cat([value, new_value], dim=2)
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads)
        total = key.shape[2]
        seen = torch.ones(total, total, dtype=torch.bool).tril()[total - length :]
        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)
        x = x + self.project(mixed)
        x = x + self.contract(F.gelu(self.expand(self.second(x)), approximate="tanh"))
        return x, key, value


class Llama(nn.Module):
    """Touvron et al. 2023: rotary embedding, RMSNorm, SwiGLU, fewer key heads than query heads.

    `norm` is torch's, which new exporters support, or `RmsNorm`.
    """

    def __init__(
        self,
        vocabulary: int = 64,
        width: int = 32,
        heads: int = 4,
        key_heads: int = 2,
        layers: int = 2,
        norm: type[nn.Module] = nn.RMSNorm,
    ):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            _LlamaBlock(width, heads, key_heads, norm) for _ in range(layers)
        )
        self.norm = norm(width, eps=1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)
        depth = width // heads
        self.register_buffer("frequencies", 1e4 ** -(torch.arange(0, depth, 2) / depth))

    def forward(self, input_ids: Tensor) -> Tensor:
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        angles = torch.outer(places.to(self.frequencies.dtype), self.frequencies)
        angles = torch.cat([angles, angles], dim=-1)
        x = self.tokens(input_ids)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        return self.head(self.norm(x))


class _LlamaBlock(nn.Module):
    def __init__(self, width: int, heads: int, key_heads: int, norm: type[nn.Module]):
        super().__init__()
        self.depth = width // heads
        self.first, self.second = norm(width, eps=1e-5), norm(width, eps=1e-5)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, key_heads * self.depth, bias=False)
        self.value = nn.Linear(width, key_heads * self.depth, bias=False)
        self.project = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, width = x.shape
        inner = self.first(x)
        query, key, value = (
            linear(inner).view(batch, length, -1, self.depth).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        query, key = (v * cos + _half_turned(v) * sin for v in (query, key))
        groups = query.shape[1] // key.shape[1]
        key, value = (_repeated(v, groups) for v in (key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        inner = self.second(x)
        return x + self.down(F.silu(self.gate(inner)) * self.up(inner))


class RmsNorm(nn.Module):
    """Zhang and Sennrich 2019, as implemented in transformers."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def _half_turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def _repeated(x: Tensor, times: int) -> Tensor:
    batch, heads, length, depth = x.shape
    x = x[:, :, None].expand(batch, heads, times, length, depth)
    return x.reshape(batch, heads * times, length, depth)


class Recurrent(nn.Module):
    """Bidirectional LSTM or GRU layers over embedded tokens; the last step is classified."""

    def __init__(self, kind: str, vocabulary: int = 50, width: int = 16, layers: int = 2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        make = {"lstm": nn.LSTM, "gru": nn.GRU}[kind]
        self.layers = make(width, width, layers, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, 5)

    def forward(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        outputs, state = self.layers(self.tokens(input_ids))
        hidden = state[0] if isinstance(state, tuple) else state
        return self.head(outputs[:, -1]), hidden
