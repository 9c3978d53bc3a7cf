"""Long sums on an OpenCL device are as exact as on the CPU."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tcopt
from machines.opencl_device import TOLERANCE, needs_device
from models.checks import assert_close, run_reference
from running.examples import examples

_HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def _run(text: str, target: str, **feeds: np.ndarray) -> list[np.ndarray]:
    return tcopt.compile(onnx.parser.parse_model(f"{_HEAD}\n{text}"), target).run(feeds)


@needs_device
def test_ones_are_counted() -> None:
    """From 2^24 on a float32 that is counted up by ones stays as it is."""
    count = 1 << 25
    text = f"f (float[{count}] x) => (float y) {{ y = ReduceSum <keepdims = 0> (x) }}"
    (y,) = _run(text, "opencl", x=np.ones(count, np.float32))
    assert y == count


@pytest.mark.nightly(every=6)
@needs_device
@pytest.mark.parametrize("target", ["opencl", "opencl:mali"])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceL2"])
def test_sums_are_as_exact_as_on_the_cpu(op: str, target: str) -> None:
    text = "f (float[3, 500000] x) => (float[3, 1] y) { a = Constant <value_ints = [1]> ()"
    text += f" y = {op} (x, a) }}"
    x = np.random.default_rng(3).random((3, 500000), np.float32)
    wide = x.astype(np.float64)
    exact = {
        "ReduceSum": wide.sum(1),
        "ReduceMean": wide.mean(1),
        "ReduceL2": np.sqrt((wide * wide).sum(1)),
    }[op]
    errors = {
        each: np.abs(_run(text, each, x=x)[0][:, 0] / exact - 1).max() for each in (target, "cpu")
    }
    # A few units in the last place may go either way.
    assert errors[target] <= max(errors["cpu"], 4 * np.finfo(np.float32).eps), errors


OPERATORS = {
    "Softmax": "y = Softmax <axis = {axis}> (x)",
    "LogSoftmax": "y = LogSoftmax <axis = {axis}> (x)",
    "LayerNormalization": "y = LayerNormalization <axis = {axis}> (x, o)",
    "ReduceLogSumExp": "a = Constant <value_ints = [{axis}]> () y = ReduceLogSumExp (x, a)",
    "ReduceProd": "a = Constant <value_ints = [{axis}]> () y = ReduceProd (x, a)",
    "ArgMax": "y = ArgMax <axis = {axis}> (x)",
    "ReduceMin": "y = ReduceMin (x)",
    "ReduceSumSquare": "y = ReduceSumSquare (x)",
}


@pytest.mark.nightly
@needs_device
@settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(data=st.data())
def test_operators_on_odd_shapes(data: st.DataObject) -> None:
    """Few rows or many, long or short, along any axis."""
    rank = data.draw(st.integers(1, 3))
    extents = st.sampled_from([1, 2, 3, 7, 31, 64, 257])
    shape = [data.draw(extents) for _ in range(rank)]
    shape[data.draw(st.integers(0, rank - 1))] = data.draw(st.sampled_from([9, 1000, 20011]))
    axis = data.draw(st.integers(0, rank - 1))
    op = data.draw(st.sampled_from(sorted(OPERATORS)))
    kind = "int64" if op == "ArgMax" else "float"
    dims = ", ".join(map(str, shape))
    inputs = f"float[{dims}] x"
    if op == "LayerNormalization":
        inputs += f", float[{', '.join(map(str, shape[axis:]))}] o"
    model = f"f ({inputs}) => ({kind} y) {{ {OPERATORS[op].format(axis=axis)} }}"
    proto = onnx.parser.parse_model(f"{_HEAD}\n{model}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    rng = np.random.default_rng(sum(shape))
    feeds = {"x": rng.standard_normal(shape, np.float32)}
    if op == "LayerNormalization":
        feeds["o"] = rng.standard_normal(shape[axis:], np.float32)
    if op == "ReduceProd":
        feeds["x"] = 1 + feeds["x"] / 1000
    (y,) = tcopt.compile(proto, "opencl").run(feeds)
    (expected,) = run_reference(proto, feeds)
    assert_close(y, np.asarray(expected), TOLERANCE)
