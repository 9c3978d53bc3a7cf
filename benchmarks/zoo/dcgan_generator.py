"""The DCGAN generator (Radford et al. 2015, figure 1): noise to an image of 64 x 64."""

from __future__ import annotations

from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network

_WIDTHS = (1024, 512, 256, 128)


def build(batch: int = 1) -> ModelProto:
    """Noise [batch, 100, 1, 1] to images [batch, 3, 64, 64]."""
    net = Network("dcgan_generator")
    x = net.input("noise", [batch, 100, 1, 1])
    channels = 100
    for position, width in enumerate(_WIDTHS):
        x = _up(net, x, channels, width, first=position == 0)
        x = net.add("Relu", net.batch_norm(x, width))
        channels = width
    x = net.add("Tanh", _up(net, x, channels, 3, first=False))
    return net.model(**{x: [batch, 3, 64, 64]})


def _up(net: Network, x: str, channels: int, width: int, *, first: bool) -> str:
    """A 4 x 4 transposed convolution: to 4 x 4 first, then doubling the size."""
    w = net.normal([channels, width, 4, 4], (4 * channels) ** -0.5)
    strides, pads = ([1, 1], [0] * 4) if first else ([2, 2], [1] * 4)
    return net.add("ConvTranspose", x, w, kernel_shape=[4, 4], strides=strides, pads=pads)
