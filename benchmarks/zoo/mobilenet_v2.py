"""MobileNet-V2 (Sandler et al. 2018, table 2), batch norms folded."""

from __future__ import annotations

from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network

# Expansion, output channels, repeats and first stride of each stage.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def build(batch: int = 1) -> ModelProto:
    """Images [batch, 3, 224, 224] to scores [batch, 1000]."""
    net = Network("mobilenet_v2")

    def relu6(x: str) -> str:
        return net.add("Clip", x, net.scalar(0.0), net.scalar(6.0))

    x = net.input("image", [batch, 3, 224, 224])
    x = relu6(net.conv(x, 3, 32, 3, 2))
    channels = 32
    for expansion, width, repeats, first in _STAGES:
        for repeat in range(repeats):
            stride = first if repeat == 0 else 1
            hidden = channels * expansion
            y = relu6(net.conv(x, channels, hidden, 1)) if expansion > 1 else x
            y = relu6(net.conv(y, hidden, hidden, 3, stride, groups=hidden))
            y = net.conv(y, hidden, width, 1)
            x = net.add("Add", x, y) if stride == 1 and channels == width else y
            channels = width
    x = relu6(net.conv(x, channels, 1280, 1))
    x = net.add("Flatten", net.add("GlobalAveragePool", x), axis=1)
    return net.model(**{net.gemm(x, 1280, 1000): [batch, 1000]})
