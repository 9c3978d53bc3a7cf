"""The 9 depthwise convolutions of MobileNet: D1 to D9 of the TVM paper's table 2."""

from __future__ import annotations

from functools import partial

from case import Case
from suites.conv import convolution

# Name, height and width, channels, stride; all 3 x 3, padded by one.
_LAYERS = (
    ("D1", 112, 32, 1),
    ("D2", 112, 64, 2),
    ("D3", 56, 128, 1),
    ("D4", 56, 128, 2),
    ("D5", 28, 256, 1),
    ("D6", 28, 256, 2),
    ("D7", 14, 512, 1),
    ("D8", 14, 512, 2),
    ("D9", 7, 1024, 1),
)

CASES = [
    Case(
        name,
        partial(convolution, name, size, channels, channels, 3, stride, channels),
        f"{size}x{size}, {channels}, 3x3, stride {stride}",
    )
    for name, size, channels, stride in _LAYERS
]
