"""TopK and cumulative operators, against onnxruntime."""

import numpy as np
import pytest

from models.checks import check_node

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(axis: int, largest: int):
    x = RNG.permutation(60).astype(np.float32).reshape(3, 4, 5)
    k = np.array([2], np.int64)
    options = {"axis": axis, "largest": largest, "opset": 11, "constants": [1]}
    check_node("TopK", x, k, outputs=2, **options)


def test_top_k_of_old_opsets():
    x = RNG.permutation(24).astype(np.float32).reshape(4, 6)
    check_node("TopK", x, outputs=2, axis=1, k=3, opset=9)


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_cumulative_sum(reverse: int, exclusive: int):
    x, axis = RNG.random((2, 5, 3)).astype(np.float32), np.array(1, np.int64)
    options = {"reverse": reverse, "exclusive": exclusive, "constants": [1]}
    check_node("CumSum", x, axis, **options)
