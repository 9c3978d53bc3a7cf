"""The 12 convolutions of ResNet-18: C1 to C12 of the TVM paper's table 2."""

from __future__ import annotations

from functools import partial

from onnx import ModelProto

from case import Case
from tcopt.frontends.onnx.building.network import Network

# Name, height and width, input and output channels, kernel, stride; padded by half the kernel.
_LAYERS = (
    ("C1", 224, 3, 64, 7, 2),
    ("C2", 56, 64, 64, 3, 1),
    ("C3", 56, 64, 64, 1, 1),
    ("C4", 56, 64, 128, 3, 2),
    ("C5", 56, 64, 128, 1, 2),
    ("C6", 28, 128, 128, 3, 1),
    ("C7", 28, 128, 256, 3, 2),
    ("C8", 28, 128, 256, 1, 2),
    ("C9", 14, 256, 256, 3, 1),
    ("C10", 14, 256, 512, 3, 2),
    ("C11", 14, 256, 512, 1, 2),
    ("C12", 7, 512, 512, 3, 1),
)


def convolution(
    name: str, size: int, cin: int, cout: int, kernel: int, stride: int, groups: int = 1
) -> ModelProto:
    """One convolution without bias of an image [1, cin, size, size]."""
    net = Network(name)
    x = net.input("x", [1, cin, size, size])
    out = (size - 1) // stride + 1
    y = net.conv(x, cin, cout, kernel, stride, groups=groups, bias=False)
    return net.model(**{y: [1, cout, out, out]})


CASES = [
    Case(
        name,
        partial(convolution, name, size, cin, cout, kernel, stride),
        f"{size}x{size}, {cin} to {cout}, {kernel}x{kernel}, stride {stride}",
    )
    for name, size, cin, cout, kernel, stride in _LAYERS
]
