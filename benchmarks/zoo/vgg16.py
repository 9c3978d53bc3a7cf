"""VGG-16 (Simonyan and Zisserman 2014, configuration D)."""

from __future__ import annotations

from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network

_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def build() -> ModelProto:
    """Image [1, 3, 224, 224] to scores [1, 1000]."""
    net = Network("vgg16")
    x = net.input("image", [1, 3, 224, 224])
    channels = 3
    for width, convolutions in _STAGES:
        for _ in range(convolutions):
            x = net.add("Relu", net.conv(x, channels, width))
            channels = width
        x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Flatten", x, axis=1)
    x = net.add("Relu", net.gemm(x, 512 * 7 * 7, 4096))
    x = net.add("Relu", net.gemm(x, 4096, 4096))
    return net.model(**{net.gemm(x, 4096, 1000): [1, 1000]})
