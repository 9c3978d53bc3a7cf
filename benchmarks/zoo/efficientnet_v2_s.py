"""EfficientNetV2-S (Tan and Le 2021, table 4), batch norms folded."""

from __future__ import annotations

from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network
from zoo.efficientnet import Stage, head, silu, stage

_STAGES = (
    Stage(1, 3, 1, 24, 2, fused=True),
    Stage(4, 3, 2, 48, 4, fused=True),
    Stage(4, 3, 2, 64, 4, fused=True),
    Stage(4, 3, 2, 128, 6),
    Stage(6, 3, 1, 160, 9),
    Stage(6, 3, 2, 256, 15),
)


def build() -> ModelProto:
    """Image [1, 3, 384, 384] to scores [1, 1000]."""
    net = Network("efficientnet_v2_s")
    x = net.input("image", [1, 3, 384, 384])
    x = silu(net, net.conv(x, 3, 24, 3, 2))
    channels = 24
    for each in _STAGES:
        x = stage(net, x, channels, each)
        channels = each.channels
    return net.model(**{head(net, x, channels): [1, 1000]})
