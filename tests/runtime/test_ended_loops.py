"""Loops that data ends: one program for all numbers of iterations."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, numpy_helper

import tcopt
from memory.guard_pages import guarded
from tcopt.support.errors import InputError

F32 = np.float32
Feeds = dict[str, np.ndarray]

UNTIL = """f, y = Loop<body = step (int64 i, bool go, float[1] s)
  => (bool on, float[1] next, float[1] row) {
  next = Add(s, one) less = Less(next, end) on = Squeeze(less) row = Neg(next) }>"""
COUNTED = """f, y = Loop<body = step (int64 i, bool go, float[4] s)
  => (bool on, float[4] next, float[4] row) {
  on = Identity(go) e = Gather(x, i) next = Add(s, e) row = Mul(next, e) }>"""

MODELS: dict[str, tuple[str, dict[str, object], list[tuple[Feeds, int]]]] = {
    "a count": (
        f'm (float[20, 4] x, int64 n) => (float[4] f, float[k, 4] y) {{ {COUNTED}(n, "", zero) }}',
        {"zero": np.zeros(4, F32)},
        [({"n": np.array(n)}, n) for n in (3, 0, 1, 20, 4)],
    ),
    "a condition": (
        f"""m (float[1] end) => (float[1] f, float[k, 1] y) {{
          first = Less(zero, end) go = Squeeze(first) {UNTIL}("", go, zero) }}""",
        {"zero": np.zeros(1, F32), "one": np.ones(1, F32)},
        [({"end": np.array([n], F32)}, max(n, 0)) for n in (4, -1, 0, 1, 33)],
    ),
    "both": (
        f"m (int64 n, float[1] end) => (float[1] f, float[k, 1] y) {{ {UNTIL}(n, yes, zero) }}",
        {"zero": np.zeros(1, F32), "one": np.ones(1, F32), "yes": np.array(True)},
        [
            ({"n": np.array(n), "end": np.array([end], F32)}, min(n, max(end, 1)))
            for n, end in [(5, 3), (5, 9), (0, 3), (1, 3), (40, 0)]
        ],
    ),
    "no limit": (
        f"m (float[1] end) => (float[1] f, float[k, 1] y) {{ {UNTIL}(n, yes, zero) }}",
        {
            "zero": np.zeros(1, F32),
            "one": np.ones(1, F32),
            "yes": np.array(True),
            "n": np.array(2**63 - 1),
        },
        [({"end": np.array([n], F32)}, max(n, 1)) for n in (7, 0, 33)],
    ),
    "a short loop": (
        f"m (float[1] end) => (float[1] f, float[k, 1] y) {{ {UNTIL}(n, yes, zero) }}",
        {
            "zero": np.zeros(1, F32),
            "one": np.ones(1, F32),
            "yes": np.array(True),
            "n": np.array(6),
        },
        [({"end": np.array([n], F32)}, min(max(n, 1), 6)) for n in (4, 0, 33)],
    ),
}


def model_of(name: str) -> ModelProto:
    text, values, _ = MODELS[name]
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    for key, value in values.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), key))
    return model


def expected(feeds: Feeds, steps: int) -> list[np.ndarray]:
    if "x" in feeds:
        states = np.cumsum(feeds["x"][:steps], axis=0)
        return [states[-1] if steps else np.zeros(4, F32), states * feeds["x"][:steps]]
    return [np.array([steps], F32), -np.arange(1, steps + 1, dtype=F32)[:, None]]


@pytest.mark.parametrize("name", MODELS)
def test_every_number_of_iterations(name: str, rng: np.random.Generator) -> None:
    progress: list[str] = []
    compiled = tcopt.compile(
        model_of(name), workers=0, progress=lambda step, *_: progress.append(step)
    )
    compiles = progress.count("done")
    for given, steps in MODELS[name][2]:
        feeds = {**given}
        if name == "a count":
            feeds["x"] = rng.standard_normal((20, 4)).astype(F32)
        for found, wanted in zip(compiled.run(feeds), expected(feeds, steps), strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert progress.count("done") == compiles


def final_values(body: str) -> ModelProto:
    text = f'm (float[20, 4] x, int64 n) => (float[4] f) {{ {body}(n, "", zero) }}'
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(4, F32), "zero"))
    return model


LAST = (
    COUNTED.replace("f, y = ", "f = ")
    .replace(", float[4] row", "")
    .replace("row = Mul(next, e)", "")
)


@pytest.mark.parametrize("form", ["saved", "nested"])
def test_final_values_alone(form: str, tmp_path, rng: np.random.Generator) -> None:
    """Loops without results of their iterations are part of a single program."""
    body = LAST
    if form == "nested":
        inner = LAST.replace("f = ", "next = ").replace("next = Add", "u = Add")
        inner = inner.replace("i, bool go, float[4] s", "j, bool g, float[4] t").replace(
            "bool on, float[4] next", "bool o, float[4] u"
        )
        inner = inner.replace(
            "on = Identity(go) e = Gather(x, i) u = Add(s, e)",
            "o = Identity(g) e = Gather(x, j) u = Add(t, e)",
        )
        body = f"""f = Loop<body = outer (int64 i, bool go, float[4] s)
          => (bool on, float[4] next) {{ on = Identity(go) {inner}(i, "", s) }}>"""
    compiled = tcopt.compile(final_values(body), workers=0)
    compiled.save(tmp_path / "m.tcm")
    loaded = tcopt.load(tmp_path / "m.tcm")
    for n in (0, 1, 6, 20):
        x = rng.standard_normal((20, 4)).astype(F32)
        counts = range(n) if form == "nested" else [n]
        wanted = np.sum([x[:count].sum(axis=0) for count in counts], axis=0)
        for each in (compiled, loaded):
            with guarded():
                (found,) = each.run({"x": x, "n": np.array(n)})
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_indices_are_checked_in_the_iterations_that_run(rng: np.random.Generator) -> None:
    compiled = tcopt.compile(final_values(LAST), workers=0)
    x = rng.standard_normal((20, 4)).astype(F32)
    with pytest.raises(InputError, match="Gather"):
        compiled.run({"x": x, "n": np.array(21)})
    (found,) = compiled.run({"x": x, "n": np.array(20)})
    np.testing.assert_allclose(found, x.sum(axis=0), rtol=1e-4, atol=1e-5)


def test_a_loop_over_a_size_that_a_condition_ends():
    """Its results have room for the largest size."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
    m (float[n] x, float end) => (float f, float[k] y) <float zero = {0}, bool yes = {1}> {
        shape = Shape(x)
        most = Squeeze(shape)
        f, y = Loop(most, yes, zero) <body = step (int64 i, bool go, float s)
            => (bool on, float next, float row) {
            e = Gather(x, i) next = Add(s, e) on = Less(next, end) row = Mul(next, e) }>
    }""")
    compiled = tcopt.compile(model, workers=0, dims={"n": (1, 20)})
    for length, end, steps in (5, 9.0, 5), (20, 3.0, 3), (20, 40.0, 20), (1, 0.5, 1), (8, 8.0, 8):
        with guarded():
            f, y = compiled.run({"x": np.ones(length, F32), "end": np.array(end, F32)})
        assert f == steps and y.tolist() == list(range(1, steps + 1))
