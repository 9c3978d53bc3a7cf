"""Pooling, against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node, node_model
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError

CASES = {
    "plain": {"kernel_shape": [3, 2]},
    "strided": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "ceil": {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    "ceil_padded": {
        "kernel_shape": [2, 2],
        "strides": [3, 3],
        "pads": [1, 1, 1, 1],
        "ceil_mode": 1,
    },
    "same_upper": {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    "same_lower": {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"},
    "dilated": {"kernel_shape": [2, 2], "dilations": [2, 2]},
}


@pytest.mark.parametrize("case", CASES)
def test_max_pool(case: str, rng: np.random.Generator):
    check_node("MaxPool", rng.standard_normal((2, 3, 8, 9)).astype(np.float32), **CASES[case])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count_include_pad", [0, 1])
def test_average_pool(case: str, count_include_pad: int, rng: np.random.Generator):
    x = rng.standard_normal((2, 3, 8, 9)).astype(np.float32)
    check_node("AveragePool", x, opset=19, count_include_pad=count_include_pad, **CASES[case])


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(p: int, rng: np.random.Generator):
    x = rng.standard_normal((1, 2, 6, 6)).astype(np.float32)
    check_node("LpPool", x, p=p, kernel_shape=[2, 2], strides=[2, 2])


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_global_pool(op_type: str, rank: int, rng: np.random.Generator):
    check_node(op_type, rng.standard_normal((2, 3, *[5] * rank)).astype(np.float32))


def test_kernel_must_fit_the_rank():
    model = node_model("MaxPool", [np.ones((1, 1, 4, 4), np.float32)], kernel_shape=[2])
    with pytest.raises(ImportModelError, match="kernel_shape"):
        import_model(model)
