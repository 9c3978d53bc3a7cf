"""Operators that are written as loops serve ranges of sizes, and access live elements only."""

from __future__ import annotations

import itertools

import numpy as np
import onnx.parser
import onnx.reference
import pytest
from onnx import numpy_helper

import tcopt
from memory.guard_pages import guarded

OPSET = '<ir_version: 10, opset_import: ["" : 21]>'

CASES = {
    "cumsum_of_columns": (
        "g (float[n, m] x) => (float[n, m] y) { y = CumSum <reverse = 1> (x, k0) }",
        {"n": (0, 5), "m": (0, 33)},
    ),
    "cumsum_of_rows": (
        "g (float[n, m] x) => (float[n, m] y) { y = CumSum <exclusive = 1> (x, k1) }",
        {"n": (0, 5), "m": (0, 33)},
    ),
    "few_largest": (
        "g (float[n, m] x) => (float[n, a] y, int64[n, a] i) { y, i = TopK (x, k3) }",
        {"n": (0, 3), "m": (3, 40)},
    ),
    "many_smallest": (
        "g (float[n, m] x) => (float[n, a] y, int64[n, a] i) { y, i = TopK <largest = 0> (x, k3) }",
        {"n": (1, 2), "m": (3, 9)},
    ),
    "few_of_many": (
        "g (float[n, m] x) => (float[n, a] y, int64[n, a] i) { y, i = TopK (x, k20) }",
        {"n": (1, 2), "m": (20, 300)},
    ),
    "scatter": (
        "g (float[n, m] x, int64[2, m] i, float[2, m] u) => (float[n, m] y)"
        ' { y = ScatterElements <axis = 0, reduction = "add"> (x, i, u) }',
        {"n": (2, 9), "m": (0, 19)},
    ),
    "scatter_rows": (
        "g (float[n, m] x, int64[k, 1] i, float[k, m] u) => (float[n, m] y)"
        ' { y = ScatterND <reduction = "max"> (x, i, u) }',
        {"n": (2, 9), "m": (0, 19), "k": (0, 3)},
    ),
    "determinant": (
        "g (float[n, m, m] x) => (float[n] y) { y = Det (x) }",
        {"n": (1, 3), "m": (1, 6)},
    ),
    "places_of_maxima": (
        "g (float[1, n, m, m] x) => (float[1, n, a, a] y, int64[1, n, a, a] i)"
        " { y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) }",
        {"n": (1, 2), "m": (2, 9)},
    ),
    "regions": (
        "g (float[1, n, m, m] x, float[k, 4] b, int64[k] j) => (float[k, n, 2, 2] y)"
        " { y = RoiAlign <output_height = 2, output_width = 2> (x, b, j) }",
        {"n": (1, 17), "m": (3, 8), "k": (0, 2)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_serve_ranges(name: str) -> None:
    text, dims = CASES[name]
    model = onnx.parser.parse_model(f"{OPSET} {text}")
    for number in (0, 1):
        model.graph.initializer.append(numpy_helper.from_array(np.array(number), f"k{number}"))
    for number in (3, 20):
        model.graph.initializer.append(numpy_helper.from_array(np.array([number]), f"k{number}"))
    program, reference = tcopt.compile(model, dims=dims), onnx.reference.ReferenceEvaluator(model)
    ends = [sorted({low, min(low + 1, high), high}) for low, high in dims.values()]
    rng = np.random.default_rng(0)
    for sizes in itertools.product(*ends):
        values = dict(zip(dims, sizes, strict=True))
        feeds = {}
        for info in model.graph.input:
            kind = info.type.tensor_type
            shape = [values.get(d.dim_param, d.dim_value) for d in kind.shape.dim]
            x = rng.standard_normal(shape).astype(np.float32)
            feeds[info.name] = x
            if kind.elem_type == onnx.TensorProto.INT64:
                feeds[info.name] = np.arange(x.size).reshape(shape) % 2 * (info.name == "i")
        wanted = reference.run(None, feeds)
        with guarded():
            found = program.run(feeds)
        for result, expected in zip(found, wanted, strict=True):
            assert result.shape == np.shape(expected), values
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
