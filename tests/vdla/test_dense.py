"""Dense layers on an accelerator that stores bytes give the CPU's and onnxruntime's integers.

More cases: `python tests/vdla/test_dense.py 0 100`.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import tcopt
from models.checks import exact_options
from models.quantised_networks import QuantisedNetwork, Value
from tcopt.runtime.program import Program


def model_of(made: QuantisedNetwork, x: Value, result: Value) -> onnx.ModelProto:
    """Return the model from one value to another."""
    made.real(result, "y")
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)]
    results = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, result.shape)]
    graph = helper.make_graph(made.nodes, "dense", inputs, results, made.tensors)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def perceptron(
    seed: int, shape: Sequence[int], sizes: Sequence[int], *, shifts: bool = True
) -> onnx.ModelProto:
    """Dense layers between quantisers, with relu; on means for images."""
    made = QuantisedNetwork(seed, shifts)
    places = -4
    first = x = made.quantise("x", tuple(shape), places)
    if len(shape) == 4:
        mean = made.node("GlobalAveragePool", [made.real(x)])
        rows, places = tuple(shape[:2]), -5
        if seed % 2:
            mean = made.real(made.quantise(mean, (*rows, 1, 1), places))
        x = made.quantise(made.node("Flatten", [mean]), rows, places)
    for outputs in sizes:
        count = len(made.tensors)
        name = made.node("Relu", [made.product(x, outputs)])
        found = made.tensors[count : count + 3]
        steps, _, weights = (numpy_helper.to_array(each) for each in found)
        largest = float(np.abs(weights.astype(int)).max() * steps.max())
        spread = 20 * 2.0**places * largest * x.shape[-1] ** 0.5
        places = math.ceil(math.log2(spread / 60))
        x = made.quantise(name, (*x.shape[:-1], outputs), places)
    return model_of(made, first, x)


def compare(
    model: onnx.ModelProto, target: str, seed: int, *, is_fast: bool = False, is_varied: bool = True
) -> Program:
    """Run a model on both processors and on the CPU alone.

    Args:
        is_fast: whether integers may differ by a step from the CPU's.
        is_varied: whether results must have several distinct values.
    """
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": 4 * np.random.default_rng(seed).normal(size=shape).astype(np.float32)}
    (expected,) = tcopt.compile(model, cache=False, workers=0).run(feeds)
    accuracy = "fast" if is_fast else "default"
    passes = {"instead-of:partition": f"partition{{all-of-them=true accuracy={accuracy}}}"}
    compiled = tcopt.compile(model, target, cache=False, workers=0, passes=passes)
    (found,) = compiled.run(feeds)
    numbers = np.unique(expected)
    assert not is_varied or len(numbers) > min(8, expected.size // 4)
    if is_fast:
        assert np.abs(found - expected).max() < 1.5 * np.diff(numbers).min()
    else:
        np.testing.assert_array_equal(found, expected)
        session = onnxruntime.InferenceSession(model.SerializeToString(), exact_options())
        np.testing.assert_array_equal(found, session.run(None, feeds)[0])
    assert isinstance(compiled.program, Program)
    return compiled.program


CASES = {
    "rows": ((5, 40), (33, 64, 10)),
    "one row": ((1, 16), (24, 5)),
    "batches of rows": ((2, 3, 20), (48, 17)),
    "means": ((1, 40, 4, 4), (33, 10)),
    "means of a batch": ((3, 20, 8, 4), (17, 10)),
}


@pytest.mark.nightly(every=10)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["vdla:vta", "vdla:pynq"])
def test_dense_layers_are_the_accelerators(name: str, target: str) -> None:
    """Dense layers run on the accelerator with bias, scale, clamp and bytes, and means if their
    scale is a power of two."""
    shape, sizes = CASES[name]
    seed = 2 + (target == "vdla:pynq")
    program = compare(perceptron(seed, shape, sizes), target, seed)
    assert len(program.calls) == len(sizes) + (len(shape) == 4)


def test_any_scales_where_the_alu_multiplies() -> None:
    """Any scales and zero points, per channel or not."""
    model = perceptron(5, (3, 20), (33, 20), shifts=False)
    program = compare(model, "vdla:vta-mulh", 5, is_fast=True)
    assert len(program.calls) == 2


def random_case(seed: int) -> tuple[Sequence[int], Sequence[int]]:
    """Draw a shape and the output sizes of layers."""
    rng = random.Random(seed)
    shape = rng.choice(list(CASES.values()))[0]
    shape = [max(n + rng.choice([-1, 0, 0, 1]), 1) for n in shape]
    if len(shape) == 4:
        shape[2:] = rng.choice([(1, 1), (2, 4), (4, 4)])
    return shape, [rng.choice([1, 5, 16, 17, 40]) for _ in range(rng.randrange(1, 5))]


if __name__ == "__main__":
    for each in range(*map(int, sys.argv[1:3])):
        shape, sizes = random_case(each)
        found = perceptron(each, shape, sizes)
        program = compare(found, ("vdla:vta", "vdla:pynq", "vdla")[each % 3], each, is_varied=False)
        print(each, shape, sizes, len(program.calls), flush=True)
