"""Rows of tiny and huge elements, and tails of activations, against numpy in double precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx.parser
import pytest

import tcopt

Array = np.ndarray
BASE = np.random.default_rng(0).standard_normal((2, 4, 8))


def _normalized(x: Array, p: int) -> Array:
    return x / np.linalg.norm(x, p, axis=-1, keepdims=True)


def _log_sum(x: Array) -> Array:
    top = x.max(-1, keepdims=True)
    return top + np.log(np.exp(x - top).sum(-1, keepdims=True))


ROWS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "l1": ("y = ReduceL1<keepdims=1>(x, ax)", lambda x: np.abs(x).sum(-1, keepdims=True)),
    "norm 1": ("y = LpNormalization<axis=-1, p=1>(x)", lambda x: _normalized(x, 1)),
    "norm 2": ("y = LpNormalization<axis=-1, p=2>(x)", lambda x: _normalized(x, 2)),
    "softmax": ("y = Softmax(x)", lambda x: np.exp(x - _log_sum(x))),
    "log softmax": ("y = LogSoftmax(x)", lambda x: x - _log_sum(x)),
    "log sum exp": ("y = ReduceLogSumExp<keepdims=1>(x, ax)", _log_sum),
    "mean": ("y = ReduceMean<keepdims=1>(x, ax)", lambda x: x.mean(-1, keepdims=True)),
    "sign": ("y = Softsign(x)", lambda x: x / (1 + np.abs(x))),
}


def run(body: str, x: Array) -> Array:
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
      g (float{list(x.shape)} x) => (float[{", ".join("abc"[: x.ndim])}] y)
      <int64[1] ax = {{-1}}> {{ {body} }}""")
    return tcopt.compile(model, cache=False, workers=0).run({"x": x})[0]


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_any_magnitude(name: str):
    body, function = ROWS[name]
    scales = np.array([1e-30, 1e-18, 1, 50, 1e18, 1e30])[:, None, None]
    x = (scales * BASE[0]).astype(np.float32)
    expected = function(x.astype(np.float64))
    # A logarithm of a sum near 1 is as accurate as the sum.
    atol = {"log softmax": 1e-6, "softmax": 1e-30}.get(name, 0)
    np.testing.assert_allclose(run(body, x), expected, rtol=2e-5, atol=atol)


TAILS: dict[str, Callable[[Array], Array]] = {
    "Softplus": lambda x: np.logaddexp(0, x),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Exp": np.exp,
    "Asinh": np.arcsinh,
    "Mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
}


@pytest.mark.parametrize("name", TAILS)
def test_tails_keep_their_relative_accuracy(name: str):
    magnitudes = np.concatenate([np.logspace(-30, -1, 30), np.linspace(0.1, 80, 90)])
    x = np.concatenate([-magnitudes, magnitudes]).astype(np.float32)
    expected = TAILS[name](x.astype(np.float64))
    np.testing.assert_allclose(run(f"y = {name}(x)", x), expected, rtol=5e-6, atol=0)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_matrices_are_inverted_at_any_scale(scale: float):
    x = (scale * np.random.default_rng(1).standard_normal((3, 4, 4))).astype(np.float32)
    x[:, 0, 0] = 0
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["com.microsoft" : 1]>
      g (float[3, 4, 4] x) => (float[3, 4, 4] y) { y = com.microsoft.Inverse(x) }""")
    (y,) = tcopt.compile(model, cache=False, workers=0).run({"x": x})
    np.testing.assert_allclose(y * scale, np.linalg.inv(x.astype(np.float64)) * scale, rtol=1e-4)
