"""YOLOv8n (Ultralytics 2023), batch norms folded."""

from __future__ import annotations

from onnx import ModelProto

from zoo.efficientnet import silu
from zoo.yolov8 import yolov8n


def build() -> ModelProto:
    """Image [1, 3, 640, 640] to boxes and scores of classes [1, 84, 8400]."""
    return yolov8n("yolov8n", silu)
