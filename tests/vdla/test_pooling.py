"""8-bit pooling on the accelerator's ALU gives onnxruntime's bytes.

More windows: `PYTHONPATH=tests python tests/vdla/test_pooling.py 0 200`.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import tcopt
from models.quantised_networks import QuantisedNetwork
from tcopt.runtime.program import Program

EVERY = {"instead-of:partition": "partition{all-of-them=true}"}


def network(
    seed: int, shape: tuple[int, ...], kind: str = "MaxPool", **window: Any
) -> onnx.ModelProto:
    """A pooling between a quantiser and a dequantiser of the same scale."""
    made = QuantisedNetwork(seed, shifts=True)
    x = made.quantise("x", shape, -4)
    pooled = made.node(kind, [made.real(x)], **window)
    name = made.node("QuantizeLinear", [pooled, x.scale, x.zero])
    made.node("DequantizeLinear", [name, x.scale, x.zero], "y")
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)]
    results = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    graph = helper.make_graph(made.nodes, "pool", inputs, results, made.tensors)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def random_window(seed: int) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Draw a shape, and a window that fits it."""
    rng = random.Random(seed)
    space = [rng.choice([5, 7, 12, 30, 56]), rng.choice([5, 9, 12, 30, 57])]
    shape = (rng.choice([1, 1, 2]), rng.choice([3, 16, 20, 33]), *space)
    while True:
        kernel = [rng.choice([1, 2, 3, 5]) for _ in space]
        dilations = [rng.choice([1, 1, 2]) for _ in space]
        pads = [rng.randrange(k) for k in kernel * 2]
        window: dict[str, Any] = {"kernel_shape": kernel, "dilations": dilations, "pads": pads}
        window |= {"strides": [rng.choice([1, 2, 3]) for _ in space]}
        window |= {"ceil_mode": rng.randrange(2)}
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        if all(n + pads[d] + pads[d + 2] >= spans[d] for d, n in enumerate(space)):
            return shape, window


def feeds_of(shape: tuple[int, ...], seed: int) -> dict[str, Any]:
    """Data with many windows without positive values."""
    rng = np.random.default_rng(seed)
    return {"x": (3 * rng.normal(size=shape) - 3).astype(np.float32)}


def compare(model: onnx.ModelProto, feeds: dict[str, Any], target: str) -> Program:
    """Run a model on both processors; return the program."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    made = tcopt.compile(model, target, cache=False, workers=0, passes=EVERY)
    (found,), (expected,) = made.run(feeds), session.run(None, feeds)
    np.testing.assert_array_equal(found, expected)
    assert isinstance(made.program, Program)
    return made.program


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("seed", [0, 4, 12, 19, 21])
def test_maxima_of_random_windows(seed: int) -> None:
    """Any strides, dilations, pads, and partial last windows."""
    shape, window = random_window(seed)
    target = ("vdla:vta", "vdla:pynq")[seed % 2]
    program = compare(network(seed, shape, **window), feeds_of(shape, seed), target)
    assert len(program.calls) == 1


def test_a_window_that_registers_do_not_hold_is_the_hosts() -> None:
    """48 x 48 registers exceed the machine's."""
    shape = (1, 3, 50, 50)
    model = network(0, shape, kernel_shape=[48, 48])
    assert not compare(model, feeds_of(shape, 0), "vdla:vta").calls


def test_a_pooling_between_convolutions_is_the_accelerators() -> None:
    """Three programs, with the pooling as the middle one."""
    made = QuantisedNetwork(5, shifts=True)
    x = made.quantise("x", (1, 16, 12, 12), -4)
    first = made.same_shape(x)
    name = made.node("MaxPool", [made.real(first)], kernel_shape=[3, 3], strides=[2, 2])
    pooled = made.quantised(name, (1, 16, 5, 5))
    last = made.same_shape(pooled)
    made.real(last, "y")
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)]
    results = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, last.shape)]
    graph = helper.make_graph(made.nodes, "pool", inputs, results, made.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    program = compare(model, feeds_of(x.shape, 5), "vdla:vta")
    assert len(program.calls) == 3


if __name__ == "__main__":
    for each in range(*map(int, sys.argv[1:3])):
        shape, window = random_window(each)
        model = network(each, shape, **window)
        program = compare(model, feeds_of(shape, each), ("vdla:vta", "vdla:pynq")[each % 2])
        print(each, shape, window, len(program.calls), flush=True)
