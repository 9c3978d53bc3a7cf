"""Models with data-dependent shapes, compiled in stages, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import helper

import tcopt
from models.checks import node_model, run_reference
from tcopt.frontends.onnx import MissingShapesError, MissingValuesError, import_model
from tcopt.frontends.onnx.importer import import_staged
from tcopt.frontends.onnx.model.imported import Fixed, Open, Staged
from tcopt.frontends.onnx.model.options import ImportOptions
from tcopt.support.errors import UnsupportedError


def model_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')


def check(compiled: tcopt.Model, model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    """Equal shapes and types, equal integers, and floats within tolerance."""
    actual = compiled.run(feeds)
    for ours, theirs in zip(actual, run_reference(model, feeds), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_places_and_what_follows(rng: np.random.Generator):
    """A later stage is compiled for each number of indices and contains only what depends on it."""
    model = model_of("""masked (float[3, 20] x) => (float[n] y, float[20] z, int64[2, n] p) {
        half = Constant<value_float = 0.5>()
        over = Greater(x, half)
        p = NonZero(over)
        t = Transpose(p)
        picked = GatherND(x, t)
        y = Mul(picked, picked)
        z = ReduceMax<axes = [0], keepdims = 0>(x)
    }""")
    compiled = tcopt.compile(model, workers=0)
    for seed in (1, 2):
        x = np.random.default_rng(seed).standard_normal((3, 20)).astype(np.float32)
        check(compiled, model, {"x": x})
    check(compiled, model, {"x": np.zeros((3, 20), np.float32)})


def test_a_stage_behind_another():
    """The result of one stage determines the size of the next."""
    model = model_of("""twice (float[90] x) => (float[k] y, int64[1, n] p) {
        half = Constant<value_float = 0.5>()
        low = Constant<value_float = 0.25>()
        over = Greater(x, half)
        p = NonZero(over)
        some = Compress(x, over)
        less = Sub(some, half)
        more = Greater(less, low)
        y = Compress(less, more)
    }""")
    compiled = tcopt.compile(model, workers=0)
    for seed in (1, 2):
        x = np.random.default_rng(seed).uniform(0, 1, 90).astype(np.float32)
        check(compiled, model, {"x": x})


FIRST_PART = """picked (float[90] x) => (float[n, k] y) {
    most = ReduceMax(x)
    n = Cast<to = 7>(most)
    rest = Constant<value_ints = [-1]>()
    shape = Concat<axis = 0>(n, rest)
    part = Reshape(x, shape)
    y = Tanh(part)
}"""
"""The number of rows divides a number of elements, which no range of sizes decides."""

COUNTED = """by_value (float[100] x) => (float[?] y, int64[1, m] p) {
    axes = Constant<value_ints = [0]>()
    zero = Constant<value_ints = [0]>()
    half = Constant<value_float = 0.5>()
    sum = ReduceSum(x, axes)
    n = Cast<to = 7>(sum)
    %s
    over = Greater(t, half)
    p = NonZero(over)
    flat = Reshape(t, minus)
    y = Compress(flat, bits)
    minus = Constant<value_ints = [-1]>()
    bits = Cast<to = 9>(flat)
}"""
SHAPED_BY_VALUE = {
    "slice": "t = Slice(x, zero, n, zero)",
    "split": "h = Constant<value_ints = [100]>() d = Sub(h, n) s = Concat<axis = 0>(n, d) "
    "t, u = Split<axis = 0>(x, s)",
    # The third stage uses a result of the first.
    "passed on": "v = Neg(x) r = Slice(x, zero, n, zero) q = NonZero(r) w = Mul(v, v) "
    "c = Size(q) e = Unsqueeze(c, zero) t = Slice(w, zero, e, zero)",
    # A second and a third value are computed from the selected elements.
    "values": "a = Slice(x, zero, n, zero) b = ReduceSum(a, axes) m = Cast<to = 7>(b) "
    "r = Slice(x, zero, m, zero) g = ReduceMax(r) k = Cast<to = 7>(g) "
    "l = Reshape(k, one) j = Add(l, n) t = Slice(x, zero, j, zero) "
    "one = Constant<value_ints = [1]>()",
}


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("nodes", SHAPED_BY_VALUE.values(), ids=SHAPED_BY_VALUE.keys())
def test_stages_after_one_for_a_value(nodes: str):
    """A stage for a data-dependent value is followed by further stages."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]>\n{COUNTED % nodes}')
    compiled = tcopt.compile(model, workers=0)
    for count in (3, 5):
        x = np.zeros(100, np.float32)
        x[[*range(count - 1), 40]] = 1
        for ours, theirs in zip(
            compiled.run({"x": x}), run_reference(model, {"x": x}), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


IN_BODIES = {
    # Suppression as exported for a batch of images: one iteration per image, boxes in a sequence.
    "suppression in a loop": """batched (float[2, 6, 4] b, float[2, 1, 6] x) => (int64[k, 3] y) {
        none = SequenceEmpty<dtype = 7>()
        count = Constant<value_int = 2>()
        yes = Cast<to = 9>(count)
        most = Constant<value_int = 4>()
        overlap = Constant<value_float = 0.3>()
        all = Loop(count, yes, none) <body = step (int64 i, bool c, seq(int64[?, 3]) s)
            => (bool d, seq(int64[?, 3]) t) {
            axis = Constant<value_ints = [0]>()
            own = Gather<axis = 0>(b, i)
            boxes = Unsqueeze(own, axis)
            scores = Gather<axis = 0>(x, i)
            more = Unsqueeze(scores, axis)
            chosen = NonMaxSuppression(boxes, more, most, overlap)
            t = SequenceInsert(s, chosen)
            d = Identity(c)
        }>
        y = ConcatFromSequence<axis = 0>(all)
    }""",
    "a branch that data chooses": """chosen (float[90] x) => (float[k] y) {
        half = Constant<value_float = 0.5>()
        most = ReduceMax<keepdims = 0>(x)
        large = Greater(most, half)
        y = If(large) <
            then_branch = yes () => (float[k] u) { u = Unique(x) },
            else_branch = no () => (float[k] v) { over = Greater(x, half) v = Compress(x, over) }
        >
    }""",
    "places in a loop of many steps": """places (float[20, 5] x) => (int64[20] y) {
        count = Constant<value_int = 20>()
        yes = Cast<to = 9>(count)
        y = Loop(count, yes) <body = step (int64 i, bool c) => (bool d, int64 n) {
            d = Identity(c)
            row = Gather<axis = 0>(x, i)
            places = NonZero(row)
            n = Size(places)
        }>
    }""",
    "a function": """called (float[90] x) => (float[k] y, int64[k] n) { y, n = own.pick(x) }
    <domain: "own", opset_import: ["" : 17]> pick (a) => (u, n) {
        u, i, j, n = Unique(a)
        m = ReduceMax(n)
        axes = Constant<value_ints = [0]>()
        w = Slice(a, axes, m)
        z = NonZero(w)
    }""",
}


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("name", IN_BODIES)
def test_extents_that_data_decides_in_bodies(name: str, rng: np.random.Generator):
    """One stage computes the value that the import of a node with bodies needs."""
    text = IN_BODIES[name]
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17, "own" : 1]>\n{text}')
    compiled = tcopt.compile(model, workers=0)
    shapes = {spec.name: [int(d or 0) for d in spec.shape] for spec in compiled.inputs}
    for scale in (0.4, 2) if "branch" in name else (2,):
        feeds = {
            n: (rng.integers(0, 5, shape) * (scale / 4)).astype(np.float32)
            for n, shape in shapes.items()
        }
        check(compiled, model, feeds)


def test_values_computed_from_data_are_awaited(rng: np.random.Generator):
    """A Range with a data-dependent limit; the data may change and the code is reused."""
    model = model_of("""counted (float[100] x) => (int64[n] y, float[100] z) {
        zero = Constant<value_int = 0>()
        one = Constant<value_int = 1>()
        scale = Constant<value_float = 5.0>()
        most = ReduceMax<keepdims = 0>(x)
        scaled = Mul(most, scale)
        limit = Cast<to = 7>(scaled)
        y = Range(zero, limit, one)
        z = Add(x, most)
    }""")
    compiled = tcopt.compile(model, workers=0)
    x = rng.uniform(0, 1, 100).astype(np.float32)
    for top in (1.7, 1.75, 3.3):
        x[7] = top
        check(compiled, model, {"x": x})


@pytest.mark.nightly(every=2)
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("order", [0, 1])
def test_unique(axis: int | None, order: int, rng: np.random.Generator):
    x = rng.integers(0, 2 if axis is not None else 5, (6, 4)).astype(np.float32)
    options = {} if axis is None else {"axis": axis}
    model = node_model("Unique", [x], outputs=4, sorted=order, **options)
    values, first, inverse, counts = tcopt.compile(typed(model, x), workers=0).run({"x0": x})
    flat = x.reshape(-1) if axis is None else x
    own = 0 if axis is None else axis
    np.testing.assert_array_equal(np.take(values, inverse, own), flat)
    np.testing.assert_array_equal(np.take(flat, first, own), values)
    expected = np.unique(flat, True, True, True, axis=own)
    rank = np.arange(len(first)) if order else np.argsort(np.argsort(expected[1]))
    np.testing.assert_array_equal(first, np.sort(expected[1]) if not order else expected[1])
    np.testing.assert_array_equal(counts[rank], expected[3])


def typed(model: onnx.ModelProto, x: np.ndarray) -> onnx.ModelProto:
    """Return the model with the types of Unique's outputs."""
    kinds = [helper.np_dtype_to_tensor_dtype(x.dtype), *[onnx.TensorProto.INT64] * 3]
    for info, kind in zip(model.graph.output, kinds, strict=True):
        info.type.tensor_type.elem_type = kind
    return model


@pytest.mark.parametrize("centred", [0, 1])
def test_boxes_of_a_detector(centred: int, rng: np.random.Generator):
    """Non-maximum suppression, and the selected boxes and scores."""
    model = model_of(f"""detector (float[2, 30, 4] b, float[2, 3, 30] s)
        => (int64[n, 3] chosen, float[n] best) {{
        most = Constant<value_ints = [5]>()
        overlap = Constant<value_floats = [0.3]>()
        least = Constant<value_floats = [0.2]>()
        chosen = NonMaxSuppression<center_point_box = {centred}>(b, s, most, overlap, least)
        best = GatherND(s, chosen)
    }}""")
    compiled = tcopt.compile(model, workers=0)
    for _ in range(2):
        boxes = rng.uniform(0, 1, (2, 30, 4)).astype(np.float32)
        scores = rng.uniform(0, 1, (2, 3, 30)).astype(np.float32)
        check(compiled, model, {"b": boxes, "s": scores})


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress_by_data(axis: int | None, rng: np.random.Generator):
    x, flags = rng.standard_normal((5, 6)).astype(np.float32), rng.uniform(size=5) < 0.6
    options = {} if axis is None else {"axis": axis}
    model = node_model("Compress", [x, flags], **options)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    check(tcopt.compile(model, workers=0), model, {"x0": x, "x1": flags})


def test_weights_beside_the_model(tmp_path, rng: np.random.Generator):
    """A later stage finds external weights, and a shorter path has the same results."""
    model = model_of("""layered (float[4, 8] x) => (float[n, 3] y) {
        sum = ReduceSum<keepdims = 0>(x, last)
        last = Constant<value_ints = [1]>()
        kept = Compress<axis = 0>(x, flags)
        zero = Constant<value_float = 0.0>()
        flags = Greater(sum, zero)
        y = MatMul(kept, w)
    }""")
    w = rng.standard_normal((8, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    x = rng.standard_normal((4, 8)).astype(np.float32)
    (y,) = tcopt.compile(path, workers=0).run({"x": x})
    np.testing.assert_allclose(y, x[x.sum(1) > 0] @ w, rtol=1e-5, atol=1e-6)
    assert onnxruntime.InferenceSession(path).run(None, {"x": x})[0].shape == y.shape


def test_stages_are_profiled_and_explained():
    """Each stage reports its calls in order; kernels of a later stage are marked."""
    model = model_of(FIRST_PART)
    compiled = tcopt.compile(model, workers=0)
    feeds = {"x": np.linspace(1, 9, 90, dtype=np.float32)}
    profile = compiled.profile(feeds, runs=3)
    nodes = [call.origin.nodes for call in profile.kernels]
    assert nodes[-1][-1] == "Tanh:y" and "ReduceMax:most" in nodes[0]
    later = [call.kernel.endswith("(stage 2)") for call in profile.kernels]
    assert later == sorted(later) and not later[0] and later[-1]
    assert profile.times.shape == (3, len(nodes), 2) and profile.total_us > 0
    # Calls are in order and have durations.
    flat = profile.times.reshape(3, -1)
    assert (np.diff(flat) >= 0).all()
    explanation = compiled.explain(feeds)
    assert [each.call.origin.nodes for each in explanation.calls] == nodes
    assert sum(each.share for each in explanation.calls) == pytest.approx(1)
    check(compiled, model, feeds)


def test_what_stages_cannot_do(tmp_path):
    model = model_of(FIRST_PART)
    compiled = tcopt.compile(model, workers=0)
    with pytest.raises(UnsupportedError, match="has no single program"):
        compiled.save(tmp_path / "m.tcm")
    with pytest.raises(UnsupportedError, match="later stages are compiled in a run; give feeds"):
        compiled.explain()
    with pytest.raises(MissingValuesError, match="of Reshape"):
        import_model(model)


def test_an_import_is_fixed_open_or_staged():
    """Missing shapes and values are results of an import, not exceptions."""
    data, shape = np.zeros((3, 2), np.float32), np.array([6], np.int64)
    by_value = node_model("Reshape", [data, shape])
    found = import_staged(by_value, ImportOptions())
    assert isinstance(found, Open) and isinstance(found.missing, MissingValuesError)
    assert found.missing.inputs == ("x1",)
    found = import_staged(by_value, ImportOptions(values={"x1": shape}))
    assert type(found) is Fixed
    by_shape = model_of("doubled (float[n] x) => (float[n] y) { y = Add(x, x) }")
    found = import_staged(by_shape, ImportOptions())
    assert isinstance(found, Open) and isinstance(found.missing, MissingShapesError)
    assert type(import_staged(by_shape, ImportOptions(dims={"n": 3}))) is Fixed
    indices = node_model("NonZero", [data])
    assert type(import_staged(indices, ImportOptions())) is Fixed
    found = import_staged(indices, ImportOptions(defines=False))
    assert isinstance(found, Staged) and found.rest.bounded
    found = import_staged(model_of(FIRST_PART), ImportOptions())
    assert isinstance(found, Staged) and found.rest.stage is not None
