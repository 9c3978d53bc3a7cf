"""Integer divisions that trap on processors do not stop a program."""

from __future__ import annotations

import numpy as np
import pytest

import tcopt
from models.checks import node_model


@pytest.mark.nightly(every=4)
@pytest.mark.parametrize("count", [1, 4, 8, 13])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8, np.uint32])
def test_division_by_zero_and_by_minus_one(count: int, dtype: type[np.integer]) -> None:
    least = np.iinfo(dtype).min
    x = np.resize(np.array([7, least, 0, least, 100, 9], dtype), count)
    y = np.resize(np.array([2, 0, 0, -1, 0, -1]).astype(dtype), count)
    feeds = {"x0": x, "x1": y}
    (quotient,) = tcopt.compile(node_model("Div", [x, y], opset=14)).run(feeds)
    (rest,) = tcopt.compile(node_model("Mod", [x, y], opset=14)).run(feeds)
    ordinary = (y != 0) & ~((x == least) & (y == dtype(0) - dtype(1)))
    exact = [
        int(abs(int(a)) // abs(int(b))) * (-1 if (a < 0) != (b < 0) else 1)
        for a, b in zip(x[ordinary], y[ordinary], strict=True)
    ]
    np.testing.assert_array_equal(quotient[ordinary], np.array(exact, dtype))
    np.testing.assert_array_equal(rest[ordinary], np.mod(x[ordinary], y[ordinary]))
    np.testing.assert_array_equal(quotient[y == 0], 0)
    np.testing.assert_array_equal(rest[y == 0], 0)
