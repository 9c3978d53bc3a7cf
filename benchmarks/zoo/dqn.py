"""The deep Q network (Mnih et al. 2015) on four frames of 84 x 84."""

from __future__ import annotations

from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network

# Output channels, kernel and stride of each convolution.
_CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))


def build(batch: int = 1) -> ModelProto:
    """Frames [batch, 4, 84, 84] to the values of 18 actions."""
    net = Network("dqn")
    x = net.input("frames", [batch, 4, 84, 84])
    channels = 4
    for width, kernel, stride in _CONVOLUTIONS:
        w = net.normal([width, channels, kernel, kernel], (channels * kernel * kernel / 2) ** -0.5)
        sizes = {"kernel_shape": [kernel, kernel], "strides": [stride, stride]}
        x = net.add("Relu", net.add("Conv", x, w, net.normal([width], 0.1), **sizes))
        channels = width
    x = net.add("Flatten", x, axis=1)
    x = net.add("Relu", net.gemm(x, 64 * 7 * 7, 512))
    return net.model(**{net.gemm(x, 512, 18): [batch, 18]})
