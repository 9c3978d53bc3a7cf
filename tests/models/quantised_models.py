"""Quantised models."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def quantised(
    channels: tuple[int, ...],
    size: int,
    kernel: int = 3,
    stride: int = 1,
    pad: int = 1,
    *,
    zero: int = 0,
    element: type[np.generic] = np.int8,
    shifts: bool = False,
) -> onnx.ModelProto:
    """Consecutive convolutions with biases and activations, between quantisers.

    With `shifts` all scales are powers of two, and the last result is added to the data.
    """
    rng = np.random.default_rng(0)
    values: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def value(name: str, array: np.ndarray) -> str:
        values.append(numpy_helper.from_array(array, name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    step = np.float32(0.0625 if shifts else 0.05)
    scale = value("scale", np.array(step, np.float32))
    point = value("zero", np.array(zero, element))
    data = node("QuantizeLinear", ["x", scale, point], "x_q")
    for n, (inputs, outputs) in enumerate(pairwise(channels)):
        shape = (outputs, inputs, kernel, kernel)
        by_channel = (rng.random(outputs) * 0.004 + 0.001).astype(np.float32)
        if shifts:
            by_channel[:] = 2.0**-9
        weight = [
            value(f"w{n}", rng.integers(-127, 128, shape, np.int8)),
            value(f"ws{n}", by_channel),
            value(f"wz{n}", np.zeros(outputs, np.int8)),
        ]
        bias = [
            value(f"b{n}", rng.integers(-1000, 1000, outputs, np.int32)),
            value(f"bs{n}", by_channel * step),
            value(f"bz{n}", np.zeros(outputs, np.int32)),
        ]
        operands = [
            node("DequantizeLinear", [data, scale, point], f"x{n}"),
            node("DequantizeLinear", weight, f"w{n}_f", axis=0),
            node("DequantizeLinear", bias, f"b{n}_f", axis=0),
        ]
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        result = node("Relu", [node("Conv", operands, f"conv{n}", **window)], f"relu{n}")
        data = node("QuantizeLinear", [result, scale, point], f"q{n}")
    if shifts:
        operands = [
            node("DequantizeLinear", [each, scale, point], f"{each}_r") for each in (data, "x_q")
        ]
        total = node("Relu", [node("Add", operands, "sum")], "relu")
        data = node("QuantizeLinear", [total, scale, point], "sum_q")
    node("DequantizeLinear", [data, scale, point], "y")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels[0], size, size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
