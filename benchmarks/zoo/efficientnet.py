"""Parts of EfficientNet (Tan and Le 2019; 2021), batch norms folded."""

from __future__ import annotations

from dataclasses import dataclass

from tcopt.frontends.onnx.building.network import Network

ADDED = 0.1
"""Scale of the branch added to a block's input. With forty blocks that double it, gates would
saturate and depend on rounding."""


@dataclass(frozen=True)
class Stage:
    """Blocks of a kind: the first has the stride, the others add their input.

    Attributes:
        expansion: hidden channels for each input channel.
        squeeze: input channels for each channel of the gate; 0 if there is no gate.
        fused: whether expansion and depthwise convolution are one convolution.
    """

    expansion: int
    kernel: int
    stride: int
    channels: int
    repeats: int
    squeeze: int = 4
    fused: bool = False


def silu(net: Network, x: str) -> str:
    """x * sigmoid(x), as PyTorch exports it."""
    return net.add("Mul", x, net.add("Sigmoid", x))


def stage(net: Network, x: str, channels: int, what: Stage) -> str:
    """All blocks of a stage."""
    for repeat in range(what.repeats):
        stride = what.stride if repeat == 0 else 1
        block = _fused_block if what.fused else _block
        y = block(net, x, channels, stride, what)
        x = net.add("Add", y, x) if stride == 1 and channels == what.channels else y
        channels = what.channels
    return x


def _fused_block(net: Network, x: str, channels: int, stride: int, what: Stage) -> str:
    if what.expansion == 1:
        return silu(net, net.conv(x, channels, what.channels, what.kernel, stride))
    hidden = channels * what.expansion
    y = silu(net, net.conv(x, channels, hidden, what.kernel, stride))
    return net.conv(y, hidden, what.channels, 1, gain=ADDED)


def _block(net: Network, x: str, channels: int, stride: int, what: Stage) -> str:
    hidden = channels * what.expansion
    y = silu(net, net.conv(x, channels, hidden, 1)) if what.expansion > 1 else x
    y = silu(net, net.conv(y, hidden, hidden, what.kernel, stride, groups=hidden))
    gate = channels // what.squeeze
    g = silu(net, net.conv(net.add("GlobalAveragePool", y), hidden, gate, 1))
    y = net.add("Mul", y, net.add("Sigmoid", net.conv(g, gate, hidden, 1)))
    return net.conv(y, hidden, what.channels, 1, gain=ADDED)


def head(net: Network, x: str, channels: int) -> str:
    """Scores of 1000 classes."""
    x = silu(net, net.conv(x, channels, 1280, 1))
    return net.gemm(net.add("Flatten", net.add("GlobalAveragePool", x), axis=1), 1280, 1000)
