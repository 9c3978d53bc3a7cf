"""Models whose kernels run on an OpenCL device, PoCL for want of another, against onnxruntime."""

from __future__ import annotations

import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

import tcopt
from machines.opencl_device import TOLERANCE, needs_device
from models import convolutional, transformers
from models.checks import assert_close, run_reference
from models.light_models import random_inputs
from tcopt.runtime.device.opencl import DEVICE_ENVIRONMENT, opencl_device
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import Launch
from tcopt.schedules.rules.rule import rules_for
from tcopt.support.errors import (
    BackendError,
    DeviceLostError,
    InputError,
    ResourceError,
    TcoptError,
    UnsupportedError,
)

NETWORKS = {
    "residual_net": lambda: convolutional.residual_net(12, 5),
    "vit_block": lambda: transformers.vit_block(24, 8, 30, 3),
    "bert_block": lambda: transformers.bert_block(11, 40, 5),
}

SQUARES = """<ir_version: 10, opset_import: ["" : 21]>
cube (float[700, 700] x) => (float[700, 700] y) { a = MatMul(x, x)  y = MatMul(a, x) }"""


def _check(model: ModelProto, feeds: dict[str, np.ndarray]) -> None:
    compiled = tcopt.compile(model, "opencl")
    expected = run_reference(model, feeds)
    # What the first run left in the buffers must not matter to the second.
    for _ in range(2):
        for ours, theirs in zip(compiled.run(feeds), expected, strict=True):
            assert_close(ours, np.asarray(theirs), TOLERANCE)


@needs_device
def test_operators_written_as_loops() -> None:
    """Each line along the axis is a thread's."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[3, 40, 30] x) => (float[3, 35, 30] sums, int64[3, 35, 30] places)
      <int64 k = {35}, int64 axis = {1}>
    { one = Constant <value_ints = [35]> ()
      values, places = TopK <axis = 1> (x, one)
      sums = CumSum (values, axis) }"""
    x = np.random.default_rng(2).integers(0, 9, (3, 40, 30)).astype(np.float32)
    model = onnx.parser.parse_model(text)
    _check(model, {"x": x})
    program = tcopt.compile(model, "opencl").program
    assert isinstance(program, DeviceProgram)
    launches = [step for step in program.steps if isinstance(step, Launch)]
    grids = [(s.grid[0], s.block[0]) for s in launches if re.match("top_k|cumsum", s.kernel)]
    assert grids == [(2, 64), (2, 64)]


LOOPS = {
    "prefix_sum": """<ir_version: 8, opset_import: ["": 17]>
    g (float[20] x) => (float[20] y) <int64 axis = {0}> { y = CumSum (x, axis) }""",
    "prefix_product": """<ir_version: 12, opset_import: ["": 26]>
    g (float[20] x) => (float[20] y) <int64 axis = {0}> { y = CumProd (x, axis) }""",
    "positions": """<ir_version: 8, opset_import: ["": 17]>
    g (float[4, 5] x) => (int64[2, n] y) { l = Relu (x)  y = NonZero (l) }""",
    "distinct": """<ir_version: 8, opset_import: ["": 17]>
    g (float[20] x) => (float[n] y, int64[20] i) { r = Round (x)  y, _, i = Unique (r) }""",
    "boxes": """<ir_version: 8, opset_import: ["": 17]>
    g (float[1, 9, 4] x, float[1, 2, 9] s) => (int64[n, 3] y)
      <int64 most = {4}, float limit = {0.1}>
    { y = NonMaxSuppression (x, s, most, limit) }""",
}


@needs_device
@pytest.mark.parametrize("name", LOOPS)
def test_functions_on_one_thread(name: str) -> None:
    """Loops that follow each other and share scalars stay in one launch."""
    model = onnx.parser.parse_model(LOOPS[name])
    _check(model, random_inputs(model, 0))


@needs_device
def test_read_only_arrays() -> None:
    """Neither feeds nor weights have to be writable."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
    g (float[4, 3] x) => (float[4, 3] y) <float[3] b = {1, 2, 3}> { y = Add (x, b) }""")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    x.flags.writeable = False
    (y,) = tcopt.compile(model, "opencl").run({"x": x})
    np.testing.assert_array_equal(y, x + np.arange(1, 4))


@pytest.mark.nightly(daily=["residual_net"])
@needs_device
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    model = NETWORKS[name]()
    _check(model, random_inputs(model, 0))


@pytest.mark.nightly
@needs_device
def test_functions_and_choices(rng: np.random.Generator) -> None:
    """One kernel with every kind of scalar arithmetic that the frontend makes."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
zoo (float[5, 7] a, float[5, 7] b, int32[7] n) => (float[5, 7] y, int32[7] m, bool[5, 7] t) {
  e = Exp(a)  l = Log(e)  g = Sigmoid(b)  h = Tanh(l)  f = Erf(g)  s = Sqrt(e)  p = Pow(s, g)
  fl = Floor(b)  r = Round(a)  x = Max(a, b)  i = Min(fl, r)  q = Div(x, p)  t = Less(q, i)
  w = Where(t, q, f)  v = Mod <fmod = 1> (w, p)  y = Add(v, h)
  big = Constant <value_ints = [2147483647, -2147483648, 3, -3, 7, -7, 0]> ()
  c = Cast <to = 6> (big)  u = Mul(n, c)  d = Constant <value_int = -5> ()  k = Cast <to = 6> (d)
  o = Div(u, k)  z = Mod(n, k)  m = Add(o, z)
}""")
    feeds = {
        "a": rng.standard_normal((5, 7)).astype(np.float32),
        "b": (3 * rng.standard_normal((5, 7))).astype(np.float32),
        "n": rng.integers(-(2**31), 2**31, 7, dtype=np.int32),
    }
    _check(model, feeds)


@needs_device
def test_not_a_number_wins(rng: np.random.Generator) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
nan (float[6] a, float[6] b) => (float[6] x, float[6] y, float[6] z) {
  x = Max(a, b)  y = Min(a, b)  z = Relu(a)
}""")
    a, b = rng.standard_normal((2, 6)).astype(np.float32)
    a[1] = b[4] = np.nan
    (x, y, z) = tcopt.compile(model, "opencl").run({"a": a, "b": b})
    np.testing.assert_array_equal(x, np.maximum(a, b))
    np.testing.assert_array_equal(y, np.minimum(a, b))
    np.testing.assert_array_equal(z, np.maximum(a, 0))


@needs_device
def test_time_is_unrolled_into_launches(rng: np.random.Generator) -> None:
    """Slices of a recurrent layer start anywhere in a buffer."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
steps (float[4, 1, 3] x, float[1, 5, 3] w, float[1, 5, 5] r) => (float[4, 1, 1, 5] y) {
  y, h = RNN <hidden_size = 5> (x, w, r)
}""")
    shapes = {"x": (4, 1, 3), "w": (1, 5, 3), "r": (1, 5, 5)}
    _check(model, {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()})


@needs_device
def test_open_shapes(rng: np.random.Generator) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
rows (float[n, 4] x) => (float[n, 4] y) { y = Softmax(x) }""")
    compiled = tcopt.compile(model, "opencl")
    for rows in (2, 5):
        x = rng.standard_normal((rows, 4)).astype(np.float32)
        (y,) = compiled.run({"x": x})
        assert_close(y, run_reference(model, {"x": x})[0], TOLERANCE)


SMALL = """<ir_version: 10, opset_import: ["" : 21]>
small (float[4, 8] x) => (float[4, 8] y) { z = Relu(x)  y = Add(z, z) }"""


def test_source_is_made_without_a_device() -> None:
    program = tcopt.compile(onnx.parser.parse_model(SMALL), "opencl").program
    assert isinstance(program, DeviceProgram)
    assert "__kernel" in program.source and len(program.steps) == 1


@needs_device
def test_a_saved_model_runs(rng: np.random.Generator, tmp_path) -> None:
    model = convolutional.residual_net(12, 5)
    feeds = random_inputs(model, 0)
    compiled = tcopt.compile(model, "opencl")
    compiled.save(tmp_path / "net.tcm")
    loaded = tcopt.load(tmp_path / "net.tcm")
    for kept, ours in zip(loaded.run(feeds), compiled.run(feeds), strict=True):
        np.testing.assert_array_equal(kept, ours)
    (tmp_path / "again.tcm").write_bytes((tmp_path / "net.tcm").read_bytes())
    loaded.save(tmp_path / "again.tcm")
    assert (tmp_path / "again.tcm").read_bytes() == (tmp_path / "net.tcm").read_bytes()


@needs_device
def test_callers_keep_tensors_on_the_device(rng: np.random.Generator) -> None:
    """Sessions share weights and kernels, and nothing else; tensors go between them as they are."""
    model = tcopt.compile(onnx.parser.parse_model(SMALL), "opencl")
    first, second = model.session(), model.session()
    x = rng.standard_normal((4, 8)).astype(np.float32)
    first.inputs["x"].write(x)
    first.start()
    second.inputs["x"].copy_from(first.outputs["y"])
    second.start()
    np.testing.assert_array_equal(second.outputs["y"].read(), 4 * np.maximum(x, 0))
    np.testing.assert_array_equal(first.outputs["y"].read(), 2 * np.maximum(x, 0))
    assert first.seconds(3) > 0
    with pytest.raises(InputError, match=r"float32\[4, 8\], and was given float32\[8, 4\]"):
        first.inputs["x"].write(x.T)


@pytest.mark.nightly
@needs_device
def test_a_session_that_is_given_up_while_it_runs_keeps_its_memory_till_the_end() -> None:
    """Else kernels write to memory that is somebody else's, or nobody's."""
    script = f"""
import gc
import numpy as np, onnx.parser, tcopt
model = tcopt.compile(onnx.parser.parse_model({SQUARES!r}), "opencl", workers=0)
session = model.session()
session.inputs["x"].write(np.ones((700, 700), np.float32))
session.start()
del session
gc.collect()
print(model.run({{"x": np.ones((700, 700), np.float32)}})[0][0, 0])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "490000.0\n"), done.stderr[-2000:]


@pytest.mark.nightly
@needs_device
def test_launches_are_timed(rng: np.random.Generator) -> None:
    model = transformers.bert_block(11, 40, 5)
    profile = tcopt.compile(model, "opencl").profile(random_inputs(model, 0), 2)
    calls = profile.calls()
    assert all(call.us > 0 and call.nodes and call.threads > 0 for call in calls)
    assert {call.rule for call in calls} <= {"", *(r.name for r in rules_for("gpu"))}
    assert any("matmul" in call.ops for call in calls)


def test_equal_kernels_are_compiled_once_and_kept(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCOPT_CACHE", "1")
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path))
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
twice (float[4, 8] x, float[8, 8] w) => (float[4, 8] y) {
  a = MatMul(x, w)  b = MatMul(a, w)  y = MatMul(b, w)
}""")
    first = tcopt.compile(model, "opencl").program
    assert isinstance(first, DeviceProgram)
    assert first.kernels_compiled == len(first.sources) == 1
    assert len([step for step in first.steps if isinstance(step, Launch)]) == 3
    second = tcopt.compile(model, "opencl").program
    assert isinstance(second, DeviceProgram)
    assert second.kernels_compiled == 0 and second.sources == first.sources


def test_what_a_device_model_cannot_do_is_said(tmp_path) -> None:
    model = tcopt.compile(onnx.parser.parse_model(SMALL), "opencl")
    with pytest.raises(UnsupportedError, match="cannot be a C library"):
        tcopt.export_kit(model, tmp_path)
    with pytest.raises(UnsupportedError, match="has no device memory"):
        tcopt.compile(onnx.parser.parse_model(SMALL)).session()


@needs_device
def test_bf16_is_computed_in_f32(rng: np.random.Generator) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
brain (bfloat16[3, 8] x) => (bfloat16[3, 8] y) { r = Relu(x)  y = Mul(r, r) }""")
    x = rng.standard_normal((3, 8)).astype(ml_dtypes.bfloat16)
    (y,) = tcopt.compile(model, "opencl").run({"x": x})
    expected = np.maximum(x.astype(np.float32), 0) ** 2
    np.testing.assert_allclose(y.astype(np.float32), expected, rtol=2**-8)


@needs_device
def test_half_numbers_are_kept_as_such(rng: np.random.Generator) -> None:
    """Devices that do not compute in half precision convert what they read and write."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
half (float16[3, 8] x) => (float16[3, 8] y) { r = Relu(x)  y = Mul(r, r) }""")
    x = rng.standard_normal((3, 8)).astype(np.float16)
    (y,) = tcopt.compile(model, "opencl").run({"x": x})
    np.testing.assert_allclose(y, np.maximum(x, 0) ** 2, rtol=1e-3)


class Broken:
    """A queue that refuses everything, or only work and not to wait."""

    def __init__(self, error: Exception, waits: bool):
        self.error, self.waits = error, waits

    def finish(self) -> None:
        if not self.waits:
            raise self.error


@needs_device
@pytest.mark.parametrize(
    ("waits", "name", "kind"),
    [
        (False, "RuntimeError", DeviceLostError),
        (False, "MemoryError", DeviceLostError),
        (True, "MemoryError", ResourceError),
        (True, "LogicError", BackendError),
    ],
)
def test_errors_of_the_driver_are_the_projects(
    waits: bool, name: str, kind: type[TcoptError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device is lost if its queue does not even finish."""
    cl = pytest.importorskip("pyopencl")
    device = opencl_device()
    error = getattr(cl, name)("clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES")
    buffer = device.allocate(16)

    def refuse(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(cl, "enqueue_copy", refuse)
        patch.setattr(device, "queue", Broken(error, waits))
        with pytest.raises(kind, match=r"copying 16 bytes to .* failed") as caught:
            device.write(np.zeros(4, np.float32), buffer)
    assert type(caught.value) is kind
    device.write(np.zeros(4, np.float32), buffer)


def test_no_such_device(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setenv(DEVICE_ENVIRONMENT, "no device is called so")
    opencl_device.cache_clear()
    try:
        with pytest.raises(UnsupportedError, match="no OpenCL device like"):
            opencl_device()
    finally:
        opencl_device.cache_clear()
