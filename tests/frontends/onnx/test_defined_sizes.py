"""Sizes that a program computes: one program for all of their values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import tcopt
from tcopt.support.errors import InputError

ROWS = "(float[9, 5] x, int64[1] n) => (float[k, 5] y) <int64[1] zero = {0}, int64[1] far = {99}>"

MODELS = {
    "end": f"{ROWS} {{ p = Slice(x, zero, n, zero) y = Tanh(p) }}",
    "start": f"{ROWS} {{ p = Slice(x, n, far, zero) y = Tanh(p) }}",
    "step": """(float[9, 5] x, int64[1] n) => (float[k, l] y)
        <int64[2] starts = {1, 0}, int64[2] steps = {2, 1}, int64[2] axes = {0, 1}> {
        ends = Concat<axis = 0>(n, n)
        p = Slice(x, starts, ends, axes, steps)
        y = Mul(p, p)
    }""",
    "step_after_start": """(float[9, 5] x, int64[1] n) => (float[k, 5] y)
        <int64[1] zero = {0}, int64[1] far = {99}, int64[1] two = {2}> {
        y = Slice(x, n, far, zero, two)
    }""",
}


@pytest.mark.parametrize("name", MODELS)
def test_slices_by_computed_positions(name: str, tmp_path: Path, rng: np.random.Generator):
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]>\n{name} {MODELS[name]}'
    )
    reference = ReferenceEvaluator(model)
    compiled = tcopt.compile(model, workers=0)
    compiled.save(tmp_path / "one_program.tcm")
    x = rng.random((9, 5), np.float32)
    for n in (3, 9, -2, 0, -20, 99, 1):
        feeds = {"x": x, "n": np.array([n])}
        (found,) = reference.run(None, feeds)
        expected = np.asarray(found)
        (y,) = compiled.run(feeds)
        assert y.shape == expected.shape, n
        np.testing.assert_allclose(y, expected, 1e-5)


def test_a_computed_k(tmp_path: Path, rng: np.random.Generator):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    best (float[9, 5] x, int64[1] n) => (float[k, 5] y, int64[k, 5] places) {
        y, places = TopK<axis = 0>(x, n)
    }""")
    path = tmp_path / "best.tcm"
    tcopt.compile(model, workers=0).save(path)
    compiled = tcopt.load(path)
    x = rng.random((9, 5), np.float32)
    for n in (9, 1, 4):
        y, places = compiled.run({"x": x, "n": np.array([n])})
        assert places.tolist() == np.argsort(-x, axis=0)[:n].tolist()
        assert y.tolist() == np.take_along_axis(x, places, axis=0).tolist()
    with pytest.raises(InputError, match="TopK"):
        compiled.run({"x": x, "n": np.array([10])})


def test_results_of_one_count_have_one_size(tmp_path: Path):
    """Operators accept the values of `Unique` together with their counts."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    sums (float[9] x) => (float[k] y) {
        values, first, inverse, counts = Unique(x)
        number = Cast<to = 1>(counts)
        y = Mul(values, number)
    }""")
    compiled = tcopt.compile(model, workers=0)
    compiled.save(tmp_path / "one_program.tcm")
    for x in ([1, 2, 2, 3, 3, 3, 4, 4, 4], [5] * 9, list(range(9))):
        (y,) = compiled.run({"x": np.array(x, np.float32)})
        assert y.tolist() == [v * x.count(v) for v in sorted(set(x))]
