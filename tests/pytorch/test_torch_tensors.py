"""Tensors of PyTorch as feeds, and as memory for results."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx.parser
import pytest

import tcopt
from tcopt.support.errors import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")


@cache
def double() -> tcopt.Model:
    text = '<ir_version: 10, opset_import: ["" : 21]> f (float[n, 3] x) => (float[n, 3] y)'
    return tcopt.compile(onnx.parser.parse_model(f"{text} {{ y = Add(x, x) }}"), dims={"n": (1, 8)})


def test_results_are_written_to_the_memory_of_tensors() -> None:
    x, y = torch.randn(4, 3), torch.empty(4, 3)
    address = y.data_ptr()
    (result,) = double().run({"x": x}, out={"y": y})
    assert result is y and y.data_ptr() == address
    assert torch.equal(y, x + x)


def test_memory_may_have_gaps_or_be_a_feed() -> None:
    x, wide = torch.randn(4, 3), torch.zeros(4, 6)
    double().run({"x": x}, out=[wide[:, ::2]])
    assert torch.equal(wide[:, ::2], x + x) and not wide[:, 1::2].any()
    expected = x + x
    double().run({"x": x}, out=[x])
    assert torch.equal(x, expected)


def test_feeds_that_cannot_be_read_are_named() -> None:
    for x in (torch.zeros(4, 3, requires_grad=True), torch.zeros(4, 3).to_sparse()):
        with pytest.raises(InputError) as caught:
            double().run({"x": x})
        assert '"x"' in caught.value.message


@pytest.mark.parametrize(
    "y",
    [
        torch.zeros(4, 3, requires_grad=True),
        torch.zeros(4, 3, dtype=torch.float64),
        torch.zeros(3, 4).T[:3],
    ],
    ids=["gradient", "type", "shape"],
)
def test_memory_that_cannot_be_written_is_named(y: Any) -> None:
    with pytest.raises(InputError) as caught:
        double().run({"x": torch.zeros(4, 3)}, out={"y": y})
    assert '"y"' in caught.value.message


def test_numpy_and_torch_share_results() -> None:
    (y,) = double().run({"x": torch.ones(2, 3)})
    shared = torch.from_dlpack(y)
    y += 1
    assert torch.equal(shared, torch.full((2, 3), 3.0))
    assert np.shares_memory(shared.numpy(), y)
