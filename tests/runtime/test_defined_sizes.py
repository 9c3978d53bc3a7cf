"""Programs whose sizes depend on data: one compile for every count, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest

import tcopt
from memory.guard_pages import guarded
from models.checks import run_reference
from tcopt.support.errors import InputError
from tcopt.tools import tcopt as driver
from tcopt.tools import tcopt_compile

MODELS = {
    "indices": "(float[4, 3] x) => (int64[k, 2] y) { i = NonZero(x) y = Transpose(i) }",
    "product of selected rows": """(float[12, 4] x, bool[12] c, float[4, 9] w) => (float[k, 9] y) {
        a = Compress<axis = 0>(x, c)
        b = MatMul(a, w)
        y = Relu(b)
    }""",
    "rows of any length": """(float[12, 4] x, bool[12] c) => (float[4, k] y, int64[2] s) {
        a = Compress<axis = 0>(x, c)
        t = Transpose(a)
        y = Softmax<axis = 1>(t)
        s = Shape(y)
    }""",
    "two tensors by one mask": """(float[12, 4] x, float[12, 4] z, float[12] c) => (float[k, 4] y) {
        m = Cast<to = 9>(c)
        i = NonZero(m)
        s = Transpose(i)
        a = GatherND(x, s)
        n = Cast<to = 9>(c)
        j = NonZero(n)
        t = Transpose(j)
        b = GatherND(z, t)
        y = Add(a, b)
    }""",
    "two sizes": """(float[12, 4] x, bool[12] c, bool[12] d) => (float[k, 4] y) {
        a = Compress<axis = 0>(x, c)
        b = Compress<axis = 0>(x, d)
        y = Concat<axis = 0>(a, b)
    }""",
    "rows of rows": """(float[12, 4] x, bool[12] c) => (int64[2, k] y) {
        a = Compress<axis = 0>(x, c)
        y = NonZero(a)
    }""",
    "half of two parts": """(float[12, 4] x, bool[12] c, bool[12] d) => (float[k, 4] y)
        <int64[1] z = {0}, int64[1] one = {1}, int64[1] two = {2}> {
        a = Compress<axis = 0>(x, c)
        b = Compress<axis = 0>(x, d)
        m = Concat<axis = 0>(a, b)
        s = Shape(m)
        n = Gather(s, z)
        last = Sub(n, one)
        half = Div(last, two)
        p = Slice(m, half, last, z)
        y = Relu(p)
    }""",
    "a sum": """(float[12, 4] x, bool[12] c) => (float[4] y) {
        a = Compress<axis = 0>(x, c)
        y = ReduceSum<axes = [0], keepdims = 0>(a)
    }""",
    "distinct": """(float[12] x) => (float[k] y, int64[k] i, int64[12] j, int64[k] c) {
        y, i, j, c = Unique(x)
    }""",
}


def model_of(name: str) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 11]> m {MODELS[name]}'
    return onnx.parser.parse_model(text)


def feeds_of(model: onnx.ModelProto, share: float, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs, of which about a share of the elements is not zero."""
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for info in model.graph.input:
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        kept = rng.random(shape) < share
        is_flag = info.type.tensor_type.elem_type == onnx.TensorProto.BOOL
        found[info.name] = kept if is_flag else (kept * rng.integers(1, 9, shape)).astype("f4")
    return found


@pytest.mark.parametrize("name", MODELS)
def test_one_program_for_every_count(name: str):
    """Nothing and everything selected included."""
    model, steps = model_of(name), list[str]()
    compiled = tcopt.compile(model, workers=0, progress=lambda step, *_: steps.append(step))
    for seed, share in enumerate((0, 0.1, 0.3, 0.5, 0.8, 1)):
        feeds = feeds_of(model, share, seed)
        for ours, theirs in zip(compiled.run(feeds), run_reference(model, feeds), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert steps.count("done") == 1 and len(compiled.parts) == 1


def test_shared_weights_after_sums_of_selected_rows():
    """The products are merged only where the sizes of their operands are known."""
    text = """(float[12, 256] x, bool[12] c, bool[12] d) => (float[1, 128] y, float[1, 128] z) {
        axes = Constant<value_ints = [0]>()
        a = Compress<axis = 0>(x, c)
        b = ReduceSum<keepdims = 1>(a, axes)
        y = MatMul(b, w)
        e = Compress<axis = 0>(x, d)
        f = ReduceSum<keepdims = 1>(e, axes)
        z = MatMul(f, w)
    }"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> m {text}')
    weights = np.random.default_rng(0).integers(-2, 3, (256, 128)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    compiled = tcopt.compile(model, workers=0)
    for seed in range(3):
        feeds = feeds_of(model, 0.5, seed)
        for ours, name in zip(compiled.run(feeds), "cd", strict=True):
            wanted = feeds["x"][feeds[name]].sum(0, keepdims=True) @ weights
            np.testing.assert_allclose(ours, wanted, rtol=1e-5)
    assert len(compiled.parts) == 1


def test_it_is_saved_and_profiled(tmp_path):
    model = model_of("product of selected rows")
    compiled = tcopt.compile(model, workers=0)
    feeds = feeds_of(model, 0.5)
    (expected,) = compiled.run(feeds)
    compiled.save(tmp_path / "m.tcm")
    loaded = tcopt.load(tmp_path / "m.tcm")
    np.testing.assert_array_equal(loaded.run(feeds)[0], expected)
    assert loaded.outputs == compiled.outputs
    nodes = [call.origin.nodes for call in compiled.profile(feeds, 1).kernels]
    assert nodes[-1] == ("MatMul:b", "Relu:y")


def test_results_in_given_arrays():
    """The array has to have the shape that the run defines."""
    model = model_of("product of selected rows")
    compiled = tcopt.compile(model, workers=0)
    feeds = feeds_of(model, 0.5)
    (expected,) = compiled.run(feeds)
    given = np.zeros_like(expected)
    compiled.run(feeds, out=[given])
    np.testing.assert_array_equal(given, expected)
    with pytest.raises(InputError, match='output "y"'):
        compiled.run(feeds, out=[np.zeros((len(expected) + 1, 9), np.float32)])


def test_results_do_not_share_memory():
    model = model_of("indices")
    compiled = tcopt.compile(model, workers=0)
    first = compiled.run(feeds_of(model, 1))[0]
    kept = first.copy()
    compiled.run(feeds_of(model, 0.5))
    np.testing.assert_array_equal(first, kept)


def test_every_pass_keeps_the_results(tmp_path, capsys):
    path = tmp_path / "rows.onnx"
    path.write_bytes(model_of("a sum").SerializeToString())
    assert tcopt_compile.main(["--print-pipeline", "--compile-to", "kernel"]) == 0
    pipeline = capsys.readouterr().out.strip()
    assert driver.main([str(path), "-p", pipeline, "--verify-each=exec"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert "same values" in lines[-1] and not [line for line in lines if "not run" in line]


SIZED = {
    "suppressed boxes": """(float[1, n, 4] x, float[1, 2, n] z) => (int64[k, 3] y) {
        most = Constant<value_ints = [20]>()
        share = Constant<value_float = 0.3>()
        least = Constant<value_float = 0.1>()
        y = NonMaxSuppression(x, z, most, share, least)
    }""",
    "distinct rows": """(float[n, 3] x) => (float[k, 3] y, int64[k] i, int64[n] j, int64[k] c) {
        y, i, j, c = Unique<axis = 0>(x)
    }""",
    "rows in order of appearance": """(float[n] x) => (float[k] y, int64[k] i) {
        y, i = Unique<sorted = 0>(x)
    }""",
    "product of selected rows": """(float[n, 4] x, bool[n] c, float[4, 9] w) => (float[k, 9] y) {
        a = Compress<axis = 0>(x, c)
        y = MatMul(a, w)
    }""",
    "positions": """(float[n, 3] x) => (int64[k, 2] y, float[k, 2] z) {
        i = NonZero(x)
        y = Transpose(i)
        z = Cast<to = 1>(y)
    }""",
    "at most 20 largest": """(float[2, n] x) => (float[2, k] y, int64[2, k] i) {
        s = Shape<start = 1>(x)
        t = Constant<value_ints = [20]>()
        c = Min(s, t)
        y, i = TopK(x, c)
    }""",
}


@pytest.mark.parametrize("name", SIZED)
def test_counts_of_sized_data(name: str):
    """The data have a range of sizes themselves."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 19]> m {SIZED[name]}')
    compiled = tcopt.compile(model, dims={"n": (1, 90)}, workers=0)
    for size in (1, 2, 3, 19, 64, 65, 90):
        rng = np.random.default_rng(size)
        feeds: dict[str, np.ndarray] = {}
        for info in model.graph.input:
            shape = [dim.dim_value or size for dim in info.type.tensor_type.shape.dim]
            is_flag = info.type.tensor_type.elem_type == onnx.TensorProto.BOOL
            feeds[info.name] = rng.integers(0, 3, shape).astype(bool if is_flag else "f4")
        with guarded():
            found = compiled.run(feeds)
        for ours, theirs in zip(found, run_reference(model, feeds), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert len(compiled.parts) == 1
