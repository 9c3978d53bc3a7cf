"""Networks in plain PyTorch with random weights, for `benchmarks/pytorch.py`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Module:
    """Return a convolution with batch norm."""
    padding = kernel // 2
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    """A body with a skip connection, and an activation of the sum."""

    def __init__(self, body: nn.Module, skip: nn.Module | None = None, activate: Any = F.relu):
        super().__init__()
        self.body, self.skip, self.activate = body, skip or nn.Identity(), activate

    def forward(self, x: Tensor) -> Tensor:
        return self.activate(self.body(x) + self.skip(x))


def _plain(x: Tensor) -> Tensor:
    return x


def head(channels: int, classes: int = 100) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def stem(channels: int) -> list[nn.Module]:
    return [conv(3, channels, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]


def resnet18() -> nn.Module:
    layers, width = stem(64), 64
    for channels in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if block == 0 and channels > 64 else 1
            body = nn.Sequential(
                conv(width, channels, 3, stride), nn.ReLU(), conv(channels, channels)
            )
            skip = None if stride == 1 else conv(width, channels, 1, stride)
            layers.append(Residual(body, skip))
            width = channels
    return nn.Sequential(*layers, *head(width))


def resnet_bottleneck() -> nn.Module:
    layers, width = stem(64), 64
    for channels in (64, 128, 256):
        for block in range(2):
            stride = 2 if block == 0 and channels > 64 else 1
            body = nn.Sequential(
                conv(width, channels, 1), nn.ReLU(), conv(channels, channels, 3, stride),
                nn.ReLU(), conv(channels, 4 * channels, 1),
            )  # fmt: skip
            layers.append(Residual(body, None if block else conv(width, 4 * channels, 1, stride)))
            width = 4 * channels
    return nn.Sequential(*layers, *head(width))


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    width = 3
    for channels, count in ((32, 1), (64, 1), (128, 2), (256, 2)):
        for _ in range(count):
            layers += [nn.Conv2d(width, channels, 3, padding=1), nn.ReLU(inplace=True)]
            width = channels
        layers.append(nn.MaxPool2d(2))
    classifier = [
        nn.Flatten(),
        nn.Linear(256 * 49, 512),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(512, 9),
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), *classifier)


class Gate(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels: int):
        super().__init__()
        few = channels // 4
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, few, 1), nn.SiLU(),
            nn.Conv2d(few, channels, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


def _inverted(activation: Callable[[], nn.Module], *, gated: bool) -> nn.Module:
    layers: list[nn.Module] = [conv(3, 16, 3, 2), activation()]
    width = 16
    for channels, stride in ((24, 2), (24, 1), (40, 2), (40, 1), (80, 2), (80, 1)):
        wide = 6 * width
        gate = [Gate(wide)] if gated else []
        body = nn.Sequential(
            conv(width, wide, 1), activation(), conv(wide, wide, 3, stride, wide), activation(),
            *gate, conv(wide, channels, 1),
        )  # fmt: skip
        layers.append(body if stride > 1 else Residual(body, None, _plain))
        width = channels
    return nn.Sequential(*layers, *head(width))


def mobilenet() -> nn.Module:
    return _inverted(nn.ReLU6, gated=False)


def efficientnet() -> nn.Module:
    return _inverted(nn.SiLU, gated=True)


class Shuffle(nn.Module):
    """Channel shuffle of ShuffleNet."""

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        return x.view(n, 4, c // 4, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet() -> nn.Module:
    layers = [conv(3, 64, 3, 4), nn.ReLU()]
    for _ in range(4):
        body = [
            conv(64, 64, 1, 1, 4),
            nn.ReLU(),
            Shuffle(),
            conv(64, 64, 3, 1, 64),
            conv(64, 64, 1),
        ]
        layers.append(Residual(nn.Sequential(*body)))
    return nn.Sequential(*layers, *head(64))


class Dense(nn.Module):
    """A layer of DenseNet, which appends channels."""

    def __init__(self, width: int):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 32, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet() -> nn.Module:
    layers = stem(64) + [Dense(64 + 32 * n) for n in range(6)]
    return nn.Sequential(*layers, conv(256, 128, 1), nn.AvgPool2d(2), *head(128))


class UNet(nn.Module):
    """Encoder and decoder with connections between them."""

    def __init__(self, *, bilinear: bool):
        super().__init__()
        widths = (3, 16, 32, 64)
        self.down = nn.ModuleList(
            nn.Sequential(conv(a, b), nn.ReLU(), conv(b, b), nn.ReLU()) for a, b in pairwise(widths)
        )
        self.up = nn.ModuleList(
            nn.Sequential(conv(b + a, a), nn.ReLU()) for b, a in ((64, 32), (32, 16))
        )
        self.wide = nn.ModuleList(
            nn.Upsample(scale_factor=2, mode="bilinear") if bilinear
            else nn.ConvTranspose2d(b, b, 2, 2) for b in (64, 32)
        )  # fmt: skip
        self.last = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for place, layer in enumerate(self.down):
            x = layer(x if place == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for wide, layer, other in zip(self.wide, self.up, (kept[1], kept[0]), strict=True):
            x = layer(torch.cat([wide(x), other], 1))
        return self.last(x)


def autoencoder() -> nn.Module:
    layers: list[nn.Module] = []
    for a, b in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(a, b, 4, 2, 1), nn.LeakyReLU(0.2)]
    for a, b in ((128, 64), (64, 32), (32, 3)):
        layers += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.GroupNorm(1, b), nn.Tanh()]
    return nn.Sequential(*layers)


class ConvNeXtBlock(nn.Module):
    """A block of ConvNeXt, with its layer norm over channels."""

    def __init__(self, width: int):
        super().__init__()
        self.spatial = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.body = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.spatial(x).permute(0, 2, 3, 1)) * self.scale
        return x + y.permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    blocks = [ConvNeXtBlock(64), ConvNeXtBlock(64), nn.Conv2d(64, 128, 2, 2), ConvNeXtBlock(128)]
    return nn.Sequential(nn.Conv2d(3, 64, 4, 4), *blocks, *head(128))


class WaveNet(nn.Module):
    """Gated convolutions of growing dilation over time."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 32, 1)
        self.layers = nn.ModuleList(nn.Conv1d(32, 64, 2, dilation=2**n) for n in range(6))
        self.last = nn.Conv1d(32, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for place, layer in enumerate(self.layers):
            a, b = layer(F.pad(x, (2**place, 0))).chunk(2, 1)
            x = x + torch.tanh(a) * torch.sigmoid(b)
        return self.last(F.relu(x))


class PointNet(nn.Module):
    """A maximum over points."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Conv1d(3, 64, 1), nn.ReLU(), nn.Conv1d(64, 256, 1), nn.ReLU())
        self.all = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.all(self.each(x).max(2).values), -1)
