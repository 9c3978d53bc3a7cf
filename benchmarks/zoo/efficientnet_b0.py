"""EfficientNet-B0 (Tan and Le 2019, table 1), batch norms folded."""

from __future__ import annotations

from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network
from zoo.efficientnet import Stage, head, silu, stage

_STAGES = (
    Stage(1, 3, 1, 16, 1),
    Stage(6, 3, 2, 24, 2),
    Stage(6, 5, 2, 40, 2),
    Stage(6, 3, 2, 80, 3),
    Stage(6, 5, 1, 112, 3),
    Stage(6, 5, 2, 192, 4),
    Stage(6, 3, 1, 320, 1),
)


def build() -> ModelProto:
    """Image [1, 3, 224, 224] to scores [1, 1000]."""
    net = Network("efficientnet_b0")
    x = net.input("image", [1, 3, 224, 224])
    x = silu(net, net.conv(x, 3, 32, 3, 2))
    channels = 32
    for each in _STAGES:
        x = stage(net, x, channels, each)
        channels = each.channels
    return net.model(**{head(net, x, channels): [1, 1000]})
