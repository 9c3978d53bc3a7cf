"""Parts of YOLOv8n (Ultralytics 2023), batch norms folded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import ModelProto

from tcopt.frontends.onnx.building.network import Network

_SIZE = 640
_CLASSES = 80
_BINS = 16
_STRIDES = (8, 16, 32)

Activation = Callable[[Network, str], str]


def yolov8n(name: str, activation: Activation) -> ModelProto:
    """Image [1, 3, 640, 640] to boxes and scores of classes [1, 84, 8400]."""
    yolo = Yolo(Network(name), activation)
    net = yolo.net
    x = net.input("image", [1, 3, _SIZE, _SIZE])
    x = yolo.conv(yolo.conv(x, 3, 16, 3, 2), 16, 32, 3, 2)
    x = yolo.c2f(x, 32, 32, 1, shortcut=True)
    p3 = yolo.c2f(yolo.conv(x, 32, 64, 3, 2), 64, 64, 2, shortcut=True)
    p4 = yolo.c2f(yolo.conv(p3, 64, 128, 3, 2), 128, 128, 2, shortcut=True)
    x = yolo.c2f(yolo.conv(p4, 128, 256, 3, 2), 256, 256, 1, shortcut=True)
    p5 = yolo.pooled(x, 256)
    up4 = yolo.c2f(yolo.joined(yolo.upsample(p5), p4), 384, 128, 1)
    out3 = yolo.c2f(yolo.joined(yolo.upsample(up4), p3), 192, 64, 1)
    out4 = yolo.c2f(yolo.joined(yolo.conv(out3, 64, 64, 3, 2), up4), 192, 128, 1)
    out5 = yolo.c2f(yolo.joined(yolo.conv(out4, 128, 128, 3, 2), p5), 384, 256, 1)
    found = yolo.detect([(out3, 64), (out4, 128), (out5, 256)])
    return net.model(**{found: [1, 4 + _CLASSES, yolo.anchors.shape[-1]]})


class Yolo:
    """Builder of the network's modules, with Ultralytics' names."""

    def __init__(self, net: Network, activation: Activation):
        self.net = net
        self.activation = activation
        grids = [_SIZE // stride for stride in _STRIDES]
        centres = [np.stack(np.meshgrid(*[np.arange(g) + 0.5] * 2)).reshape(2, -1) for g in grids]
        self.anchors = np.concatenate(centres, 1)[None].astype(np.float32)
        strides = np.repeat(_STRIDES, [g * g for g in grids])
        self.strides = strides[None, None].astype(np.float32)

    def conv(self, x: str, cin: int, cout: int, kernel: int = 1, stride: int = 1) -> str:
        return self.activation(self.net, self.net.conv(x, cin, cout, kernel, stride))

    def joined(self, *parts: str, axis: int = 1) -> str:
        return self.net.add("Concat", *parts, axis=axis)

    def upsample(self, x: str) -> str:
        scales = self.net.weight(np.array([1, 1, 2, 2], np.float32))
        return self.net.add("Resize", x, "", scales, mode="nearest")

    def c2f(self, x: str, cin: int, cout: int, repeats: int, *, shortcut: bool = False) -> str:
        half = cout // 2
        y = self.conv(x, cin, cout)
        parts = self.net.add_many("Split", 2, y, self.net.ints(half, half), axis=1)
        for _ in range(repeats):
            y = self.conv(self.conv(parts[-1], half, half, 3), half, half, 3)
            parts.append(self.net.add("Add", parts[-1], y) if shortcut else y)
        return self.conv(self.joined(*parts), half * len(parts), cout)

    def pooled(self, x: str, channels: int) -> str:
        parts = [self.conv(x, channels, channels // 2)]
        for _ in range(3):
            pool = self.net.add(
                "MaxPool", parts[-1], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1]
            )
            parts.append(pool)
        return self.conv(self.joined(*parts), 2 * channels, channels)

    def detect(self, levels: list[tuple[str, int]]) -> str:
        net, rows = self.net, []
        for x, channels in levels:
            box = self.conv(self.conv(x, channels, 64, 3), 64, 64, 3)
            score = self.conv(self.conv(x, channels, _CLASSES, 3), _CLASSES, _CLASSES, 3)
            both = self.joined(
                net.conv(box, 64, 4 * _BINS, 1), net.conv(score, _CLASSES, _CLASSES, 1)
            )
            rows.append(net.add("Reshape", both, net.ints(1, 4 * _BINS + _CLASSES, -1)))
        sizes = net.ints(4 * _BINS, _CLASSES)
        box, score = net.add_many("Split", 2, self.joined(*rows, axis=2), sizes, axis=1)
        bins = net.add("Reshape", box, net.ints(1, 4, _BINS, -1))
        bins = net.add("Softmax", net.add("Transpose", bins, perm=[0, 2, 1, 3]), axis=1)
        weights = net.weight(np.arange(_BINS, dtype=np.float32).reshape(1, _BINS, 1, 1))
        distance = net.add("Conv", bins, weights, kernel_shape=[1, 1])
        distance = net.add("Reshape", distance, net.ints(1, 4, -1))
        near, far = net.add_many("Split", 2, distance, net.ints(2, 2), axis=1)
        anchors = net.weight(self.anchors)
        low, high = net.add("Sub", anchors, near), net.add("Add", anchors, far)
        centre = net.add("Div", net.add("Add", low, high), net.scalar(2.0))
        boxes = self.joined(centre, net.add("Sub", high, low))
        boxes = net.add("Mul", boxes, net.weight(self.strides))
        return self.joined(boxes, net.add("Sigmoid", score))
