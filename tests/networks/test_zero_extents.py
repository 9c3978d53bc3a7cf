"""Tensors without elements: 0 is a valid extent for every operator.

Shapes are those of onnxruntime; remaining values follow from empty sums and maxima.
"""

from __future__ import annotations

import numpy as np
import pytest

import tcopt
from models.checks import node_model, run_imported

F = np.float32


def ones(*shape, dtype=F):
    return np.ones(shape, dtype)


BYTE, SCALE = ones(dtype=np.uint8), ones()
GATES = {"LSTM": (4, 3), "GRU": (3, 2), "RNN": (1, 2)}
IMAGE, VECTOR = ones(0, 4, 8, 8), ones(4)

EMPTY = {
    "Conv": ([IMAGE, ones(6, 4, 3, 3)], (0, 6, 6, 6), {"constants": (1,)}),
    "Conv of a weight of run time": ([IMAGE, ones(6, 4, 3, 3)], (0, 6, 6, 6), {}),
    "Conv without output channels": ([ones(1, 4, 8, 8), ones(0, 4, 3, 3)], (1, 0, 6, 6), {}),
    "Conv depthwise": ([IMAGE, ones(4, 1, 3, 3)], (0, 4, 6, 6), {"group": 4, "constants": (1,)}),
    "ConvTranspose": ([IMAGE, ones(4, 3, 2, 2)], (0, 3, 9, 9), {"constants": (1,)}),
    "QLinearConv": (
        [IMAGE.astype("u1"), SCALE, BYTE, ones(2, 4, 3, 3, dtype="u1"), SCALE, BYTE, SCALE, BYTE],
        (0, 2, 6, 6),
        {"constants": (1, 2, 3, 4, 5, 6, 7)},
    ),
    "InstanceNormalization": ([IMAGE, VECTOR, VECTOR], (0, 4, 8, 8), {}),
    "InstanceNormalization of no pixels": ([ones(2, 4, 0), VECTOR, VECTOR], (2, 4, 0), {}),
    "GroupNormalization": (
        [IMAGE, VECTOR, VECTOR],
        (0, 4, 8, 8),
        {"num_groups": 2, "opset": 21},
    ),
    "BatchNormalization": ([IMAGE, *[VECTOR] * 4], (0, 4, 8, 8), {"constants": (1, 2, 3, 4)}),
    "LayerNormalization": ([ones(3, 0), ones(0), ones(0)], (3, 0), {}),
    "Softmax": ([ones(2, 4, 0)], (2, 4, 0), {}),
    "Softmax along an inner axis": ([ones(2, 0, 3)], (2, 0, 3), {"axis": 1}),
    "LogSoftmax": ([ones(2, 4, 0)], (2, 4, 0), {"opset": 11, "axis": 1}),
    "Hardmax": ([ones(2, 4, 0)], (2, 4, 0), {}),
    "MaxPool": ([IMAGE], (0, 4, 7, 7), {"kernel_shape": [2, 2]}),
    "MaxPool with indices": ([IMAGE], (0, 4, 7, 7), {"kernel_shape": [2, 2], "outputs": 2}),
    "AveragePool": ([IMAGE], (0, 4, 7, 7), {"kernel_shape": [2, 2]}),
    "GlobalAveragePool": ([IMAGE], (0, 4, 1, 1), {}),
    "MatMul": ([ones(0, 4), ones(4, 3)], (0, 3), {"constants": (1,)}),
    "ReduceMax": ([ones(2, 0, 3)], (2, 0), {"axes": [2], "keepdims": 0}),
    "ArgMax": ([ones(2, 0, 3)], (2, 0, 1), {"axis": 2}),
    "TopK": ([ones(0, 4), np.array([2])], (0, 2), {"constants": (1,), "outputs": 2}),
    "DynamicQuantizeLinear": ([ones(0, 4)], (0, 4), {"outputs": 3}),
}


def compiled(label, inputs, options):
    model = node_model(label.split()[0], inputs, **options)
    constants = options.get("constants", ())
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if i not in constants}
    results = tcopt.compile(model).run(feeds)
    plain = run_imported(model, feeds)
    for ours, theirs in zip(results, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return results


@pytest.mark.parametrize("label", EMPTY)
def test_results_without_elements(label: str):
    inputs, shape, options = EMPTY[label]
    assert compiled(label, inputs, options)[0].shape == shape


VALUES = {
    "MatMul": ([ones(3, 0), ones(0, 4)], np.zeros((3, 4)), {}),
    "Gemm": ([ones(3, 0), ones(0, 4), ones(4)], ones(3, 4), {"constants": (1, 2)}),
    "Conv": ([ones(1, 0, 5), ones(2, 0, 3), ones(2)], ones(1, 2, 3), {"constants": (1, 2)}),
    "ConvTranspose": ([ones(1, 0, 4), ones(0, 2, 2)], np.zeros((1, 2, 5)), {}),
    "ReduceProd": ([ones(2, 0)], ones(2), {"axes": [1], "keepdims": 0}),
    "ReduceMean": ([ones(2, 0)], np.full(2, np.nan), {"axes": [1], "keepdims": 0}),
    "ReduceLogSumExp": ([ones(2, 0)], np.full(2, -np.inf), {"axes": [1], "keepdims": 0}),
    "Concat": ([ones(0, 2), ones(1, 2)], ones(1, 2), {"axis": 0}),
}


@pytest.mark.parametrize("op_type", VALUES)
def test_values_of_empty_sums(op_type: str):
    inputs, expected, options = VALUES[op_type]
    np.testing.assert_array_equal(compiled(op_type, inputs, options)[0], expected)


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("steps, batch", [(0, 2), (3, 0)])
def test_recurrent_layers(op_type: str, steps: int, batch: int):
    """Without steps, the final state is the initial one."""
    gates, results = GATES[op_type]
    state = np.arange(batch * 4, dtype=F).reshape(1, batch, 4)
    weights = [ones(1, gates * 4, 3), ones(1, gates * 4, 4)]
    inputs = [ones(steps, batch, 3), *weights, None, None, state]
    model = node_model(op_type, inputs, outputs=results, hidden_size=4)
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    y, last, *_ = tcopt.compile(model).run(feeds)
    assert y.shape == (steps, 1, batch, 4)
    np.testing.assert_array_equal(last, state)


@pytest.mark.parametrize("shape, axis", [((0,), None), ((0, 3), 0), ((3, 0), 0)])
def test_unique(shape: tuple[int, ...], axis: int | None):
    options = {} if axis is None else {"axis": axis}
    model = node_model("Unique", [ones(*shape)], outputs=4, **options)
    values, first, inverse, counts = tcopt.compile(model).run({"x0": ones(*shape)})
    groups = min(shape[0], 1)
    assert values.shape == (groups, *shape[1:])
    assert first.tolist() == [0] * groups
    assert inverse.tolist() == [0] * shape[0]
    assert counts.tolist() == [shape[0]] * groups
