"""A small U-Net (Ronneberger et al. 2015): four levels from 32 channels, 128 x 128 pixels."""

from __future__ import annotations

from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network

_SIZE, _WIDTH, _LEVELS = 128, 32, 3


def build() -> ModelProto:
    """Image [1, 3, 128, 128] to a mask of the same size."""
    net = Network("unet_small")
    x = net.input("image", [1, 3, _SIZE, _SIZE])
    channels, skips = 3, []
    for level in range(_LEVELS):
        x = _double(net, x, channels, _WIDTH << level)
        channels = _WIDTH << level
        skips.append(x)
        x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = _double(net, x, channels, 2 * channels)
    channels *= 2
    for skip in reversed(skips):
        half = channels // 2
        w = net.normal([channels, half, 2, 2], (2.0 / channels) ** 0.5)
        up = net.add(
            "ConvTranspose", x, w, net.normal([half], 0.1), kernel_shape=[2, 2], strides=[2, 2]
        )
        x = _double(net, net.add("Concat", skip, up, axis=1), channels, half)
        channels = half
    x = net.add("Sigmoid", net.conv(x, channels, 1, 1))
    return net.model(**{x: [1, 1, _SIZE, _SIZE]})


def _double(net: Network, x: str, channels: int, width: int) -> str:
    for cin in (channels, width):
        x = net.add("Relu", net.conv(x, cin, width))
    return x
