"""Recurrent layers and loops whose trip count is a size: every number of steps, also none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

import tcopt
from memory.guard_pages import guarded
from tcopt.frontends.onnx import import_model
from tcopt.interpreters.graph import run_module
from tcopt.support.arithmetic.sizes import upper_bound

Shapes = Callable[[int], dict[str, tuple[int, ...]]]
MOST = 19


def recurrent(op: str, gates: int, attributes: str = "", lengths: bool = False) -> str:
    both = 2 if "bidirectional" in attributes else 1
    inputs = [
        "float[t, 2, 3] x",
        f"float[{both}, {4 * gates}, 3] w",
        f"float[{both}, {4 * gates}, 4] r",
        f"float[{both}, {8 * gates}] b",
        *(["int32[2] lengths"] if lengths else []),
    ]
    call = f"{op}<hidden_size = 4{attributes}>(x, w, r, b{', lengths' if lengths else ''})"
    results = f"float[t, {both}, 2, 4] y, float[{both}, 2, 4] h"
    return f"m ({', '.join(inputs)}) => ({results}) {{ y, h = {call} }}"


SCANNED = """body = step (float[3, 4] s, float[3, 4] e) => (float[3, 4] next, float[3, 4] row)
    { a = MatMul(s, w) c = Add(a, e) next = Tanh(c) row = Mul(next, e) }"""

MODELS = {
    "lstm": recurrent("LSTM", 4),
    "lstm both lengths": recurrent("LSTM", 4, ', direction = "bidirectional"', lengths=True),
    "gru reverse lengths": recurrent("GRU", 3, ', direction = "reverse"', lengths=True),
    "gru before": recurrent("GRU", 3, ", linear_before_reset = 1"),
    "rnn both": recurrent("RNN", 1, ', direction = "bidirectional"'),
    "scan": f"""m (float[3, 4] s, float[t, 3, 4] x, float[4, 4] w)
      => (float[3, 4] h, float[t, 3, 4] y) {{
        h, y = Scan<num_scan_inputs = 1, {SCANNED}>(s, x) }}""",
    "scan axes": f"""m (float[3, 4] s, float[3, t, 4] x, float[4, 4] w)
      => (float[3, 4] h, float[3, 4, t] y) {{ h, y = Scan<num_scan_inputs = 1,
        scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [2],
        scan_output_directions = [1], {SCANNED}>(s, x) }}""",
    "loop": """m (float[3, 4] s, float[t, 3, 4] x, float[4, 4] w)
      => (float[3, 4] h, float[t, 3, 4] y) {
        shape = Shape<start = 0, end = 1>(x)
        h, y = Loop<body = step (int64 i, bool go, float[3, 4] s)
          => (bool on, float[3, 4] next, float[3, 4] row) {
          on = Identity(go) e = Gather(x, i) a = MatMul(s, w) c = Add(a, e) next = Tanh(c)
          row = Mul(next, e) }>(shape, "", s) }""",
    "sizes in a step": """m (float[3, 4] s, float[t, 3, 4] x)
      => (float[3, 4] h, float[t, 3, 1] y) {
        shape = Shape<start = 0, end = 1>(x) n = Cast<to = 1>(shape)
        h, y = Loop<body = step (int64 i, bool go, float[3, 4] s)
          => (bool on, float[3, 4] next, float[3, 1] row) {
          on = Identity(go) e = Gather(x, i) d = Div(e, n) next = Add(s, d)
          row = ReduceSum<keepdims = 1>(next, last) }>(shape, "", s) }""",
}


def model_of(name: str) -> ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {MODELS[name]}')
    if "last" in MODELS[name]:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "last"))
    return model


def feeds_of(model: ModelProto, steps: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(steps)
    feeds: dict[str, np.ndarray] = {}
    for info in model.graph.input:
        dims = info.type.tensor_type.shape.dim
        shape = [steps if d.dim_param else d.dim_value for d in dims]
        if info.type.tensor_type.elem_type == onnx.TensorProto.INT32:
            feeds[info.name] = rng.integers(0, steps + 1, shape, np.int32)
        else:
            feeds[info.name] = rng.standard_normal(shape).astype(np.float32)
    return feeds


@pytest.mark.parametrize("name", MODELS)
def test_every_number_of_steps(name: str) -> None:
    model = model_of(name)
    compiled = tcopt.compile(model, dims={"t": (0, MOST)}, workers=0)
    for steps in (0, 1, 2, 7, 8, 16, 17, MOST):
        feeds = feeds_of(model, steps)
        wanted = run_module(import_model(model, dims={"t": steps}), feeds)
        with guarded():
            found = compiled.run(feeds)
        for mine, other in zip(found, wanted, strict=False):
            assert mine.shape == other.shape
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


def test_profiles_count_the_steps_of_a_run() -> None:
    model = model_of("scan")
    compiled = tcopt.compile(model, dims={"t": (1, MOST)}, workers=0)
    for steps in (3, 5):
        calls = compiled.profile(feeds_of(model, steps), 1).kernels
        assert steps in {upper_bound(call.turns) for call in calls}
