"""MobileNet-V1 (Howard et al. 2017, table 1), batch norms folded."""

from __future__ import annotations

from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network

# Output channels and stride of each separable block.
_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)


def build(batch: int = 1) -> ModelProto:
    """Images [batch, 3, 224, 224] to scores [batch, 1000]."""
    net = Network("mobilenet_v1")
    x = net.input("image", [batch, 3, 224, 224])
    x = net.add("Relu", net.conv(x, 3, 32, 3, 2))
    channels = 32
    for width, stride in _BLOCKS:
        x = net.add("Relu", net.conv(x, channels, channels, 3, stride, groups=channels))
        x = net.add("Relu", net.conv(x, channels, width, 1))
        channels = width
    x = net.add("Flatten", net.add("GlobalAveragePool", x), axis=1)
    return net.model(**{net.gemm(x, channels, 1000): [batch, 1000]})
