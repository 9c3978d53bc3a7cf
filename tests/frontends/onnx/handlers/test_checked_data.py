"""A model run rejects invalid operator data, and the error names the node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import tcopt
from tcopt.support.errors import ImportModelError, InputError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
LEAST, MOST = -(2**63), 2**63 - 1


def model(text: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def refuses(compiled: tcopt.Model, match: str, **feeds: np.ndarray) -> None:
    with pytest.raises(InputError, match=match):
        compiled.run(feeds)


# The node, its indices, valid values, and values that onnxruntime rejects too.
OPERATORS = {
    "Gather": ("float[2,3,4] x, int64[2] i", "Gather<axis=1>(x, i)", [0, -3, 2], [3, -4]),
    "GatherElements": (
        "float[2,3,4] x, int64[2,1,4] i",
        "GatherElements<axis=1>(x, i)",
        [0, -3, 2],
        [3, -4],
    ),
    "GatherND": ("float[2,3,4] x, int64[5,1] i", "GatherND(x, i)", [-2, 1], [2, -3]),
    "ScatterElements": (
        "float[2,3,4] x, int64[2,1,4] i",
        "ScatterElements<axis=1>(x, i, i_u)",
        [0, -3, 2],
        [3, -4],
    ),
    "ReverseSequence": (
        "float[2,3,4] x, int64[3] i",
        "ReverseSequence(x, i)",
        [0, 1, 2],
        [3, -1],
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_indices_outside_are_refused(name: str):
    inputs, node, good, bad = OPERATORS[name]
    shape = [int(n) for n in inputs.rpartition("[")[2].partition("]")[0].split(",")]
    body = f"y = {node}"
    if "i_u" in node:
        body = f"i_u = Cast<to=1>(i) {body}"
    source = model(f"g ({inputs}) => (float[a,b,c] y) {{ {body} }}")
    for info in source.graph.output:
        info.type.tensor_type.ClearField("shape")
    compiled = tcopt.compile(source)
    session = onnxruntime.InferenceSession(
        source.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for number in good:
        feeds = {"x": X, "i": np.full(shape, number)}
        wanted = session.run(None, feeds)[0]
        np.testing.assert_array_equal(compiled.run(feeds)[0], wanted)
    for number in (*bad, MOST, LEAST):
        feeds = {"x": X, "i": np.full(shape, number)}
        refuses(compiled, rf"{name}: .* should be from .* \(at {name}:y\)", **feeds)
        with pytest.raises(Exception, match=name):
            session.run(None, feeds)
    # A single invalid value raises the error, and the next run is not affected.
    feeds["i"] = np.full(shape, good[0])
    feeds["i"].flat[-1] = bad[0]
    refuses(compiled, name, **feeds)
    compiled.run({"x": X, "i": np.full(shape, good[0])})


def test_each_dimension_of_a_place_has_its_own_limits():
    compiled = tcopt.compile(
        model("g (float[2,3,4] x, int64[1,2] i) => (float[1,4] y) { y = GatherND(x, i) }")
    )
    np.testing.assert_array_equal(compiled.run({"x": X, "i": np.array([[1, 2]])})[0], X[[1], [2]])
    refuses(compiled, "axis of 2", x=X, i=np.array([[2, 2]]))
    refuses(compiled, "axis of 3", x=X, i=np.array([[1, 3]]))


def test_numbers_of_images_and_lengths_of_sequences():
    roi = tcopt.compile(
        model(
            "g (float[2,1,4,5] x, float[1,4] r, int64[1] b) => (float[1,1,2,2] y) "
            "{ y = RoiAlign<output_height=2,output_width=2>(x, r, b) }"
        )
    )
    x, region = np.ones((2, 1, 4, 5), np.float32), np.array([[0, 0, 3, 3]], np.float32)
    for number in (-1, 2, 1000, MOST, LEAST):
        refuses(roi, "RoiAlign: image indices", x=x, r=region, b=np.array([number]))
    for number in (np.nan, np.inf, 3e38, -np.inf):
        feeds = {"x": x, "r": np.full((1, 4), number, np.float32), "b": np.array([0])}
        assert not roi.run(feeds)[0].any()
    gru = tcopt.compile(
        model(
            "g (float[3,2,1] x, float[1,6,1] w, float[1,6,2] r, int32[2] l) => (float[1,2,2] h) "
            "{ , h = GRU<hidden_size=2>(x, w, r, , l) }"
        )
    )
    feeds = {"x": np.ones((3, 2, 1), np.float32), "w": np.ones((1, 6, 1), np.float32)}
    feeds |= {"r": np.ones((1, 6, 2), np.float32), "l": np.array([0, 3], np.int32)}
    gru.run(feeds)
    for number in (-1, 4, 2**31 - 1, -(2**31)):
        refuses(gru, "sequence_lens", **feeds | {"l": np.array([1, number], np.int32)})


def test_a_branch_that_is_not_taken_refuses_nothing():
    compiled = tcopt.compile(
        model(
            """g (float[4] x, int64[1] i, bool c) => (float[1] y) { y = If(c) <
            then_branch = t () => (float[1] a) { a = Gather(x, i) },
            else_branch = e () => (float[1] b) { b = Constant<value_floats=[7.0]>() }> }"""
        )
    )
    x = np.arange(4, dtype=np.float32)
    assert compiled.run({"x": x, "i": np.array([3]), "c": np.array(True)})[0] == 3
    assert compiled.run({"x": x, "i": np.array([4]), "c": np.array(False)})[0] == 7
    refuses(compiled, "then_branch/Gather", x=x, i=np.array([4]), c=np.array(True))


def test_steps_of_a_loop_are_checked():
    compiled = tcopt.compile(
        model(
            """g (float[4] x, int64[20,1] i) => (float[1] last, float[20,1] all) {
            zero = Constant<value_floats=[0.0]>()
            last, all = Scan<num_scan_inputs=1, body = b (float[1] s, int64[1] p)
              => (float[1] t, float[1] q) { q = Gather(x, p) t = Add(s, q) }>(zero, i) }"""
        )
    )
    x, places = np.arange(4, dtype=np.float32), np.arange(20).reshape(20, 1) % 4
    assert compiled.run({"x": x, "i": places})[0] == 30
    places[17] = -5
    refuses(compiled, "Gather", x=x, i=places)


def test_checks_are_saved_with_the_program(tmp_path: Path):
    source = model("g (float[3] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }")
    tcopt.compile(source).save(tmp_path / "m.tcm")
    loaded = tcopt.load(tmp_path / "m.tcm")
    assert [spec.name for spec in loaded.outputs] == ["y"]
    x = np.arange(3, dtype=np.float32)
    assert loaded.run({"x": x, "i": np.array([2, -3])})[0].tolist() == [2, 0]
    refuses(loaded, "Gather", x=x, i=np.array([0, 3]))


@pytest.mark.parametrize(
    ("node", "match"),
    [
        ("RoiAlign<output_height=2,output_width=2,sampling_ratio=2147483648>(x, r, b)", "ratio"),
        ("RoiAlign<output_height=2,output_width=2,sampling_ratio=-1>(x, r, b)", "ratio"),
    ],
)
def test_endless_sampling_is_refused(node: str, match: str):
    text = f"g (float[2,1,4,5] x, float[1,4] r, int64[1] b) => (float[1,1,2,2] y) {{ y = {node} }}"
    with pytest.raises(ImportModelError, match=match):
        tcopt.compile(model(text))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 3e38])
def test_a_region_to_crop_must_be_finite(number: float):
    compiled = tcopt.compile(
        model(
            "g (float[1,1,4,4] x, float[8] r) => (float[1,1,3,3] y) <int64[4] s = {1,1,3,3}> "
            '{ y = Resize<mode="linear",coordinate_transformation_mode="tf_crop_and_resize">'
            "(x, r, , s) }"
        )
    )
    with pytest.raises(ImportModelError, match="region"):
        compiled.run({"x": np.ones((1, 1, 4, 4), np.float32), "r": np.full(8, number, np.float32)})


def test_nothing_is_read_of_a_tensor_without_elements():
    source = model("g (float[0,4] x, int64[3,1] i) => (float[3,4] y) { y = GatherND(x, i) }")
    with pytest.raises(ImportModelError, match="nothing to gather from"):
        tcopt.compile(source)


def test_shapes_beyond_all_memory_are_refused():
    compiled = tcopt.compile(
        model("g (float[1] x, int64[2] s) => (float[a,b] y) { y = Expand(x, s) }")
    )
    for shape in ([0, 2**62], [2**40, 2**40], [2**62, 1], [1, MOST]):
        with pytest.raises(ImportModelError, match=r"too large|strides that overflow"):
            compiled.run({"x": np.ones(1, np.float32), "s": np.array(shape)})


def test_top_k_and_suppression_of_nan():
    top = tcopt.compile(
        model(
            "g (float[1,3] x) => (float[1,3] v, int64[1,3] i) <int64[1] k = {3}> "
            "{ v, i = TopK(x, k) }"
        )
    )
    values, places = top.run({"x": np.array([[1, np.nan, 2]], np.float32)})
    np.testing.assert_array_equal(values, [[np.nan, 2, 1]])
    assert places.tolist() == [[1, 2, 0]]
    suppress = tcopt.compile(
        model(
            "g (float[1,6,4] b, float[1,1,6] s) => (int64[n,3] y) "
            "<int64 m = {1099511627776}, float iou = {1}> { y = NonMaxSuppression(b, s, m, iou) }"
        )
    )
    boxes = np.random.default_rng(0).random((1, 6, 4)).astype(np.float32)
    scores = np.array([[[1, np.nan, 2, 3, np.nan, 4]]], np.float32)
    (found,) = suppress.run({"b": boxes, "s": scores})
    assert found[:, 2].tolist()[:3] == [5, 3, 2] and set(found[:, 2]) <= {0, 2, 3, 5}
