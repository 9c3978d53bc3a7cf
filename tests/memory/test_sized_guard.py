"""Programs for ranges of sizes access nothing behind the live extents of their buffers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tcopt
from memory.guard_pages import guarded
from tcopt.frontends.onnx.building.network import Network

Feeds = dict[str, np.ndarray]
Output = tuple[str, list[int | str]]
"""Name and shape of an output."""


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def dense(net: Network) -> Output:
    x = net.input("x", ["n", 24])
    return net.add("Relu", net.add("MatMul", x, net.normal([24, 40], 0.2))), ["n", 40]


def softmax(net: Network) -> Output:
    return net.add("Softmax", net.input("x", [3, "n"]), axis=-1), [3, "n"]


def scores(net: Network) -> Output:
    x = net.input("x", ["n", 16])
    return net.add("MatMul", x, net.add("Transpose", x, perm=[1, 0])), ["n", "n"]


def window(net: Network) -> Output:
    x = net.input("x", [1, 2, "n", 9])
    y = net.add("Conv", x, net.normal([5, 2, 3, 3], 0.2), pads=[1, 1, 1, 1])
    return y, [1, 5, "n", 9]


CASES: dict[Callable[[Network], Output], Callable[[int], Feeds]] = {
    dense: lambda n: {"x": values(n, 24)},
    softmax: lambda n: {"x": values(3, n)},
    scores: lambda n: {"x": values(n, 16)},
    window: lambda n: {"x": values(1, 2, n, 9)},
}


@pytest.mark.parametrize("build", CASES)
def test_nothing_behind_a_size_is_accessed(build: Callable[[Network], Output]) -> None:
    net = Network("sized")
    name, shape = build(net)
    model = tcopt.compile(net.model(**{name: shape}), dims={"n": (1, 37)})
    for size in (1, 2, 7, 8, 15, 16, 17, 31, 36, 37):
        feeds = CASES[build](size)
        expected = model.run(feeds)
        with guarded():
            results = model.run(feeds)
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, wanted)
