"""Quantised models on the CPU and the accelerator: the CPU's integers, bit by bit."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcopt
from tcopt.backends.vdla.settings import FUNCTION
from tcopt.runtime.program import Program


def quantised(
    channels: tuple[int, ...],
    size: int,
    kernel: int = 3,
    stride: int = 1,
    pad: int = 1,
    *,
    zero: int = 0,
    element: type[np.generic] = np.int8,
) -> onnx.ModelProto:
    """Convolutions one after the other, with biases and activations, between quantisers."""
    rng = np.random.default_rng(0)
    values: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def value(name: str, array: np.ndarray) -> str:
        values.append(numpy_helper.from_array(array, name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    scale = value("scale", np.array(0.05, np.float32))
    point = value("zero", np.array(zero, element))
    data = node("QuantizeLinear", ["x", scale, point], "x_q")
    for n, (inputs, outputs) in enumerate(pairwise(channels)):
        shape = (outputs, inputs, kernel, kernel)
        by_channel = (rng.random(outputs) * 0.004 + 0.001).astype(np.float32)
        weight = [
            value(f"w{n}", rng.integers(-127, 128, shape, np.int8)),
            value(f"ws{n}", by_channel),
            value(f"wz{n}", np.zeros(outputs, np.int8)),
        ]
        bias = [
            value(f"b{n}", rng.integers(-1000, 1000, outputs, np.int32)),
            value(f"bs{n}", by_channel * np.float32(0.05)),
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
    node("DequantizeLinear", [data, scale, point], "y")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels[0], size, size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


MODELS = {
    "two convolutions": quantised((16, 32, 16), 8),
    "bytes without a sign": quantised((16, 24), 7, zero=3, element=np.uint8),
    "a first layer": quantised((3, 16), 16, kernel=7, stride=2, pad=3, zero=120, element=np.uint8),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_are_what_the_cpu_computes(name: str, tmp_path: Path) -> None:
    """Each convolution is a call of the accelerator, in memory and in a file."""
    source = MODELS[name]
    shape = [d.dim_value for d in source.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(1).normal(size=shape).astype(np.float32)}
    (expected,) = tcopt.compile(source, cache=False, workers=0).run(feeds)
    passes = {"instead-of:partition": "partition{all-of-them=true}"}
    model = tcopt.compile(source, "vdla", cache=False, workers=0, passes=passes)
    program = model.program
    assert isinstance(program, Program)
    convolutions = sum(node.op_type == "Conv" for node in source.graph.node)
    assert [call.function for call in program.calls] == [FUNCTION] * convolutions
    (found,) = model.run(feeds)
    np.testing.assert_array_equal(found, expected)
    path = tmp_path / "model.tcm"
    model.save(path)
    np.testing.assert_array_equal(tcopt.load(path).run(feeds)[0], expected)
