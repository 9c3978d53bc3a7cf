"""Compiled gathers, of indices that do not fit too."""

from __future__ import annotations

import numpy as np
import pytest

import tcopt
from models.checks import node_model

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [
        ("Gather", np.int32),
        ("Gather", np.int64),
        ("GatherElements", np.int32),
        ("GatherND", np.int64),
    ],
)
def test_an_index_outside_reads_the_nearest_element(op_type: str, dtype: type):
    """Such as a token that is not in the vocabulary: no other memory is read."""
    far = np.iinfo(dtype).max
    indices = np.array([0, -3, 2, 3, -4, far, 1 - far], dtype)
    nearest = [0, 0, 2, 2, 0, 2, 0]
    expected = X[nearest]
    if op_type == "GatherElements":
        indices, expected = indices.reshape(-1, 1, 1), expected[:, :1, :1]
    elif op_type == "GatherND":
        indices = indices.reshape(-1, 1)
    (ours,) = tcopt.compile(node_model(op_type, [X, indices])).run({"x0": X, "x1": indices})
    np.testing.assert_array_equal(ours, expected)
