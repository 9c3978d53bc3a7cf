"""Compile an ONNX model, run it, save it and load it again.

    python examples/compile_and_run.py [model.onnx]

Without an argument, it creates a small network of two dense layers and writes it to `small.onnx`.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import onnx
import onnx.reference
from onnx import TensorProto, helper, numpy_helper

import tcopt


def small_model() -> onnx.ModelProto:
    """Return a model of softmax(relu(data @ w1 + b1) @ w2 + b2) for 4 rows of 32 features."""
    rng = np.random.default_rng(0)
    weights = {"w1": (32, 64), "b1": (64,), "w2": (64, 10), "b2": (10,)}
    tensors = [
        numpy_helper.from_array(rng.standard_normal(shape, np.float32) / 8, name)
        for name, shape in weights.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["data", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"]),
    ]
    data = helper.make_tensor_value_info("data", TensorProto.FLOAT, [4, 32])
    result = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [4, 10])
    graph = helper.make_graph(nodes, "small", [data], [result], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def main() -> None:
    """Compile, run, compare with ONNX's reference implementation, save and load."""
    if len(sys.argv) > 1:
        path = sys.argv[1]
    else:
        path = "small.onnx"
        onnx.save(small_model(), path)

    started = time.perf_counter()
    model = tcopt.compile(path)
    print(f"compiled {path} in {time.perf_counter() - started:.2f} s")
    for each in (*model.inputs, *model.outputs):
        print(f"  {each.name}: {each.shape} {each.dtype}")

    rng = np.random.default_rng(1)
    feeds = {}
    for each in model.inputs:
        shape = [extent for extent in each.shape if isinstance(extent, int)]
        feeds[each.name] = rng.random(shape).astype(each.dtype)
    results = model.run(feeds)
    expected = onnx.reference.ReferenceEvaluator(path).run(None, feeds)
    for result, value in zip(results, expected, strict=True):
        # Sums are reordered, which changes a few units in the last place of f32.
        np.testing.assert_allclose(result, np.asarray(value), rtol=1e-4, atol=1e-6)
    print("same results as ONNX's reference implementation")

    model.save("small.tcm")
    again = tcopt.load("small.tcm").run(feeds)
    for result, value in zip(again, results, strict=True):
        np.testing.assert_array_equal(result, value)
    print("saved to small.tcm, loaded, run again: the same results")


if __name__ == "__main__":
    main()
