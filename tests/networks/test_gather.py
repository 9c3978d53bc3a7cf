"""Compiled gathers, including out-of-bounds indices."""

from __future__ import annotations

import numpy as np
import pytest

import tcopt
from models.checks import node_model
from tcopt.support.errors import InputError

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
def test_an_index_outside_is_refused(op_type: str, dtype: type):
    """For example a token outside the vocabulary: no other memory is read."""
    indices = np.array([0, -3, 2, 1, -2], dtype)
    model = tcopt.compile(node_model(op_type, [X, _shaped(op_type, indices)]))
    (ours,) = model.run({"x0": X, "x1": _shaped(op_type, indices)})
    expected = X[indices]
    np.testing.assert_array_equal(
        ours, expected[:, :1, :1] if op_type == "GatherElements" else expected
    )
    far = np.iinfo(dtype).max
    for outside in (3, -4, far, 1 - far, np.iinfo(dtype).min):
        wrong = indices.copy()
        wrong[3] = outside
        with pytest.raises(InputError, match="from -3 to 2"):
            model.run({"x0": X, "x1": _shaped(op_type, wrong)})


def _shaped(op_type: str, indices: np.ndarray) -> np.ndarray:
    match op_type:
        case "GatherElements":
            return indices.reshape(-1, 1, 1)
        case "GatherND":
            return indices.reshape(-1, 1)
        case _:
            return indices
