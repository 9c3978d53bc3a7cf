"""YOLOv8n (Ultralytics 2023) with Mish in place of SiLU, batch norms folded."""

from __future__ import annotations

from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network
from zoo.yolov8 import yolov8n


def build() -> ModelProto:
    """Image [1, 3, 640, 640] to boxes and scores of classes [1, 84, 8400]."""
    return yolov8n("yolov8n_mish", _mish)


def _mish(net: Network, x: str) -> str:
    return net.add("Mul", x, net.add("Tanh", net.add("Softplus", x)))
