"""Compiled top-k for any distribution of the largest elements."""

from __future__ import annotations

import numpy as np
import pytest

import tcopt
from models.checks import node_model

ROWS = 30


def rows(extent: int) -> np.ndarray:
    """Rows whose largest elements are anywhere, at the multiples of a stride, sorted, or all
    equal."""
    rng = np.random.default_rng(extent)
    x = rng.normal(0, 10, (ROWS, extent)).clip(-50, 50)
    for step in range(1, ROWS - 4):
        x[step, ::step] += 60
    x[-4], x[-3], x[-2] = np.sort(x[-4]), -np.sort(x[-3]), 7
    x[-1, ::9] = np.arange(x[-1, ::9].size) % 19 - 100
    return x


@pytest.mark.nightly(every=16)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
@pytest.mark.parametrize(("extent", "k"), [(4103, 40), (9000, 500)])
@pytest.mark.parametrize("largest", [0, 1])
def test_of_many(dtype: type, extent: int, k: int, largest: int):
    x = rows(extent).astype(dtype)
    count = np.array([k], np.int64)
    node = node_model("TopK", [x, count], outputs=2, constants=[1], largest=largest)
    values, places = tcopt.compile(node).run({"x0": x})
    keys = -x.astype(np.float64) if largest else x
    expected = np.argsort(keys, axis=-1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, -1))
