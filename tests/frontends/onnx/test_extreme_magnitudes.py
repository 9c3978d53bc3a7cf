"""Rows of tiny and huge elements, and tails of activations, against float64 numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcopt
from running.examples import examples

Array = np.ndarray
SHAPE = (6, 4, 8)
LARGEST = float(np.finfo(np.float32).max)
EPSILON = 1e-5


def _normalized(x: Array, p: int) -> Array:
    return x / np.linalg.norm(x, p, axis=-1, keepdims=True)


def _log_sum(x: Array) -> Array:
    top = x.max(-1, keepdims=True)
    return top + np.log(np.exp(x - top).sum(-1, keepdims=True))


def _inverse_deviation(x: Array, axes: tuple[int, ...]) -> Array:
    """Return 1 / sqrt(mean(x * x) + epsilon); 0 if the sum of squares overflows f32."""
    squares = np.sum(x * x, axis=axes, keepdims=True)
    count = x.size // squares.size
    return np.where(squares > LARGEST, 0, 1 / np.sqrt(squares / count + EPSILON))


def _standardized(x: Array, axes: tuple[int, ...]) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return centred * _inverse_deviation(centred, axes)


def _grouped(x: Array) -> Array:
    return _standardized(x.reshape(x.shape[0], 2, 2, -1), (2, 3)).reshape(x.shape)


def _norm(x: Array) -> Array:
    """Return the square root of the sum of squares; infinite if the sum overflows f32."""
    squares = np.sum(x * x, -1, keepdims=True)
    return np.where(squares > LARGEST, np.inf, np.sqrt(squares))


ROWS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "l1": ("ReduceL1<keepdims=1>(x, ax)", lambda x: np.abs(x).sum(-1, keepdims=True)),
    "l2": ("ReduceL2<keepdims=1>(x, ax)", _norm),
    "norm 1": ("LpNormalization<axis=-1, p=1>(x)", lambda x: _normalized(x, 1)),
    "norm 2": ("LpNormalization<axis=-1, p=2>(x)", lambda x: _normalized(x, 2)),
    "softmax": ("Softmax(x)", lambda x: np.exp(x - _log_sum(x))),
    "log softmax": ("LogSoftmax(x)", lambda x: x - _log_sum(x)),
    "log sum exp": ("ReduceLogSumExp<keepdims=1>(x, ax)", _log_sum),
    "mean": ("ReduceMean<keepdims=1>(x, ax)", lambda x: x.mean(-1, keepdims=True)),
    "sign": ("Softsign(x)", lambda x: x / (1 + np.abs(x))),
    "layer": ("LayerNormalization(x, s8)", lambda x: _standardized(x, (-1,))),
    "instance": ("InstanceNormalization(x, s4, z4)", lambda x: _standardized(x, (-1,))),
    "group": ("GroupNormalization<num_groups=2>(x, s4, z4)", _grouped),
    "rms": ("RMSNormalization(x, s8)", lambda x: x * _inverse_deviation(x, (-1,))),
}
ABSOLUTE = {"log softmax": 1e-6, "log sum exp": 1e-6, "softmax": 1e-30, "l2": 1e-18}
"""A logarithm of a sum near 1 is as accurate as the sum; squares below 1e-38 underflow."""


@cache
def compiled(name: str) -> tcopt.Model:
    ones = ", ".join(["1"] * 8)
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 23]>
      g (float{list(SHAPE)} x) => (float[a, b, c] y)
      <int64[1] ax = {{-1}}, float[8] s8 = {{{ones}}}, float[4] s4 = {{1, 1, 1, 1}},
       float[4] z4 = {{0, 0, 0, 0}}> {{ y = {ROWS[name][0]} }}""")
    return tcopt.compile(model, cache=False, workers=0)


@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=examples(60))
@given(
    exponents=st.lists(st.floats(-30, 30), min_size=SHAPE[0], max_size=SHAPE[0]),
    seed=st.integers(0, 1000),
)
def test_rows_of_any_magnitude(name: str, exponents: list[float], seed: int):
    scales = 10 ** np.array(exponents)[:, None, None]
    x = (scales * np.random.default_rng(seed).standard_normal(SHAPE)).astype(np.float32)
    (found,) = compiled(name).run({"x": x})
    expected = ROWS[name][1](x.astype(np.float64))
    # Elements that nearly cancel are as accurate as the others of their example.
    sizes = np.abs(x if name == "mean" else expected).max((1, 2), keepdims=True)
    share = np.where(np.isfinite(sizes) & ("soft" not in name), 1e-6 * sizes, 0)
    bound = 2e-5 * np.abs(expected) + share + ABSOLUTE.get(name, 0)
    bound[np.isinf(expected)] = 0
    with np.errstate(invalid="ignore"):
        is_same = (found == expected) | (np.abs(found - expected) <= bound)
    assert is_same.all(), (found[~is_same], expected[~is_same])


def run(body: str, x: Array) -> Array:
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
      g (float{list(x.shape)} x) => (float[n] y) {{ {body} }}""")
    return tcopt.compile(model, cache=False, workers=0).run({"x": x})[0]


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
