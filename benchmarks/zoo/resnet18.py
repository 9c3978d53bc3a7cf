"""ResNet-18 (He et al. 2015, table 1), batch norms folded into the convolutions."""

from __future__ import annotations

from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network


def build(batch: int = 1) -> ModelProto:
    """Images [batch, 3, 224, 224] to scores [batch, 1000]."""
    net = Network("resnet18")
    x = net.input("image", [batch, 3, 224, 224])
    x = net.add("Relu", net.conv(x, 3, 64, 7, 2))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage in range(4):
        width = 64 << stage
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = net.add("Relu", net.conv(x, channels, width, 3, stride))
            y = net.conv(y, width, width)
            if stride > 1:
                x = net.conv(x, channels, width, 1, stride)
            x = net.add("Relu", net.add("Add", y, x))
            channels = width
    x = net.add("Flatten", net.add("GlobalAveragePool", x), axis=1)
    return net.model(**{net.gemm(x, 512, 1000): [batch, 1000]})
