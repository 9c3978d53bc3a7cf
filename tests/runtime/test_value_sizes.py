"""Sizes that are values of inputs or computed values: programs with room, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import onnx.parser
import pytest

import tcopt
from memory.guard_pages import guarded
from models.checks import run_reference
from tcopt.support.errors import InputError, SizeRangeError, UnsupportedError

Feeds = dict[str, np.ndarray]


def model_of(text: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> m {text}')


class Counted:
    """A compiled model that counts its compiles, and checks its results."""

    def __init__(self, text: str, **options: object):
        self.model = model_of(text)
        self._steps: list[str] = []
        self.compiled = tcopt.compile(
            self.model,
            workers=0,
            cache=False,
            progress=lambda step, *_: self._steps.append(step),
            **options,  # pyright: ignore[reportArgumentType]
        )

    @property
    def compiles(self) -> int:
        return self._steps.count("done")

    def run(self, feeds: Mapping[str, np.ndarray]) -> int:
        """Run next to guard pages; return the number of compiles so far."""
        with guarded():
            actual = self.compiled.run(feeds)
        for ours, theirs in zip(actual, run_reference(self.model, feeds), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        return self.compiles


class Case(NamedTuple):
    """A model with an input x of 40 elements, of which n are 1; the other elements are 0."""

    nodes: str
    outputs: str = "float[k] y"
    values: tuple[int, ...] = (5, 1, 16, 20, 0, 31, 5)
    compiles: tuple[int, ...] = (1, 1, 1, 2, 2, 2, 2)


COUNT = """
    axes = Constant<value_ints = [0]>()
    sum = ReduceSum(x, axes)
    n = Cast<to = 7>(sum)
"""
CASES = {
    "Expand": Case("ones = Constant<value_floats = [2.0]>() z = Expand(ones, n) y = Neg(z)"),
    "ConstantOfShape": Case("z = ConstantOfShape(n) y = Exp(z)"),
    "Tile": Case("z = Tile(x, n) y = Neg(z)"),
    "Pad": Case("p = Concat<axis = 0>(axes, n) z = Pad(x, p) y = Neg(z)"),
    "Range": Case(
        """a = Constant<value_int = 2>() b = Constant<value_int = 3>() s = Squeeze(n)
        z = Range(a, s, b) y = Cast<to = 1>(z)""",
    ),
    "a Range of floats": Case(
        """a = Constant<value_float = 2.5>() b = Constant<value_float = 0.75>()
        s = Squeeze(sum) y = Range(a, s, b)""",
        values=(5, 1, 14, 20, 0, 26, 5),
    ),
    "Split": Case(
        """h = Constant<value_ints = [40]>() d = Sub(h, n) s = Concat<axis = 0>(n, d)
        y, z = Split<axis = 0>(x, s) u = Neg(z)""",
        outputs="float[k] y, float[j] u",
    ),
    "Resize": Case(
        """h = Constant<value_ints = [1, 1, 40]>() i = Constant<value_ints = [1, 1]>()
        u = Reshape(x, h) s = Concat<axis = 0>(i, n) z = Resize<mode = "linear">(u, , , s)
        y = Relu(z)""",
        outputs="float[a, b, k] y",
        values=(5, 1, 16, 20, 31),
        compiles=(1, 1, 1, 2, 2),
    ),
    "OneHot": Case(
        """v = Constant<value_floats = [0.0, 1.0]>() s = Squeeze(n) i = Cast<to = 7>(x)
        y = OneHot(i, s, v)""",
        outputs="float[a, k] y",
        values=(5, 1, 16, 20, 31),
        compiles=(1, 1, 1, 2, 2),
    ),
    "Reshape": Case(
        """f = Constant<value_ints = [4]>() s = Concat<axis = 0>(n, f)
        o = Constant<value_floats = [2.0]>() e = Expand(o, s) p = CumSum(e, a)
        a = Constant<value_int = 0>() t = Concat<axis = 0>(f, n) y = Reshape(p, t)""",
        outputs="float[j, k] y",
        values=(5, 1, 16, 20, 31),
        compiles=(1, 1, 1, 2, 2),
    ),
    # The sum of the tiles is a size of its own, and both are computed from other numbers.
    "arithmetic": Case(
        """two = Constant<value_ints = [2]>() m = Mul(n, two) k = Add(m, two)
        z = ConstantOfShape(k) o = Constant<value_floats = [2.0]>() e = Expand(o, k)
        y = Add(z, e)"""
    ),
    # Slices are bounded by the data that they are of, so the size is at most 40.
    "a slice of the same size": Case(
        """z = ConstantOfShape(n) s = Slice(x, axes, n, axes) y = Add(s, z)""",
        values=(5, 1, 16, 20, 39, 0),
        compiles=(1, 1, 1, 2, 3, 3),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_program_for_all_values_within_the_room(name: str):
    case = CASES[name]
    counted = Counted(f"(float[40] x) => ({case.outputs}) {{ {COUNT} {case.nodes} }}")
    compiles = [counted.run({"x": (np.arange(40) < n).astype(np.float32)}) for n in case.values]
    assert tuple(compiles) == case.compiles
    assert len(counted.compiled.parts) == 1


def test_extents_of_an_image_are_an_input():
    """Batch and channels are not resized, so they are numbers until they are."""
    counted = Counted("""(float[1, 2, 6, 6] x, int64[4] s) => (float[n, c, h, w] y) {
        y = Resize(x, , , s)
    }""")
    x = np.arange(72, dtype=np.float32).reshape(1, 2, 6, 6)
    for height, width, compiles in (3, 9, 1), (1, 16, 1), (14, 2, 1), (17, 5, 2), (3, 32, 3):
        assert counted.run({"x": x, "s": np.array([1, 2, height, width])}) == compiles
    extents = [str(extent) for extent in counted.compiled.parts[0].outputs[0].shape]
    assert extents == ["1", "2", "s_2", "s_3"]
    assert counted.run({"x": x, "s": np.array([1, 4, 5, 5])}) == 4


LENGTHS = """(float[b, t, 2] x, int64[b] lens) => (float[b, m, 2] y) {
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()
    z = Constant<value_ints = [0]>()
    axis = Constant<value_ints = [1]>()
    last = Constant<value_ints = [2]>()
    most = ReduceMax<keepdims = 0>(lens)
    indices = Range(zero, most, one)
    rows = Unsqueeze(lens, axis)
    mask = Less(indices, rows)
    end = Unsqueeze(most, z)
    part = Slice(x, z, end, axis)
    f = Cast<to = 1>(mask)
    g = Unsqueeze(f, last)
    y = Mul(part, g)
}"""


def test_masks_of_lengths():
    """The maximum is at most the length of the data, or its slice would not fit the mask."""
    counted = Counted(LENGTHS)
    for length, lens, compiles in (20, (3, 1), 1), (20, (2, 9), 1), (20, (19, 20), 2):
        x = np.ones((2, length, 2), np.float32)
        assert counted.run({"x": x, "lens": np.array(lens)}) == compiles


def test_masks_of_padded_data():
    """The maximum of the lengths is the length of the data, except in programs of other runs."""
    text = LENGTHS.replace("Slice(x, z, end, axis)", "Identity(x)").replace("m, 2] y", "t, 2] y")
    counted = Counted(text)
    runs = (9, (9, 3), 1), (9, (2, 9), 1), (12, (12, 1), 2), (7, (7, 3), 2), (12, (1, 1), 4)
    for length, lens, compiles in runs:
        x = np.ones((2, length, 2), np.float32)
        assert counted.run({"x": x, "lens": np.array(lens)}) == compiles


FRAMES = """(float[1, t, 3] h, float[1, t] d) => (float[1, 3, f] y) {
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()
    last = Constant<value_ints = [-1]>()
    scales = Constant<value_floats = [1.0, 1.0, 2.0]>()
    whole = Round(d)
    n = Cast<to = 7>(whole)
    durations = Max(n, one)
    ends = CumSum(durations, one)
    starts = Sub(ends, durations)
    total = ReduceSum<keepdims = 0>(durations)
    frames = Range(zero, total, one)
    e = Unsqueeze(ends, last)
    s = Unsqueeze(starts, last)
    before = Less(frames, e)
    after = GreaterOrEqual(frames, s)
    both = And(before, after)
    path = Cast<to = 1>(both)
    columns = Transpose<perm = [0, 2, 1]>(h)
    spread = MatMul(columns, path)
    y = Resize<mode = "nearest">(spread, , scales)
}"""


def test_frames_of_a_speech_model():
    """Symbols are repeated as often as a model has computed: sums have room, lengths a range."""
    counted = Counted(FRAMES)
    rng = np.random.default_rng(0)
    for length, most, compiles in (4, 3, 1), (4, 4, 1), (7, 2, 2), (5, 3, 2), (16, 1, 2):
        hidden = rng.standard_normal((1, length, 3)).astype(np.float32)
        durations = np.full((1, length), most, np.float32)
        assert counted.run({"h": hidden, "d": durations}) == compiles


def test_a_clamped_value_needs_no_room(tmp_path):
    """The program has the range of the clamp, and is saved."""
    nodes = f"""{COUNT} low = Constant<value_int = 1>() high = Constant<value_int = 20>()
        c = Clip(n, low, high) z = Tile(x, c) y = Neg(z)"""
    counted = Counted(f"(float[40] x) => (float[k] y) {{ {nodes} }}")
    assert counted.compiles == 1
    feeds = [{"x": (np.arange(40) < n).astype(np.float32)} for n in (0, 3, 20, 31)]
    assert [counted.run(each) for each in feeds] == [1] * 4
    counted.compiled.save(tmp_path / "m.tcm")
    loaded = tcopt.load(tmp_path / "m.tcm")
    np.testing.assert_array_equal(loaded.run(feeds[1])[0], counted.compiled.run(feeds[1])[0])


RESIZED = """(float[1, 1, 4, 4] x, int64[2] s) => (float[1, 1, h, w] y) {
    one = Constant<value_ints = [1, 1]>()
    all = Concat<axis = 0>(one, s)
    z = Resize(x, , , all)
    y = Relu(z)
}"""


def test_ranges_of_outputs_are_given(tmp_path):
    """Such a model is saved. A size outside of the range is refused by name."""
    counted = Counted(RESIZED, dims={"h": (1, 9), "w": "2..20"})
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    for shape in (9, 20), (1, 2), (4, 4):
        assert counted.run({"x": x, "s": np.array(shape)}) == 1
    counted.compiled.save(tmp_path / "m.tcm")
    for model in counted.compiled, tcopt.load(tmp_path / "m.tcm"):
        assert model.run({"x": x, "s": np.array([3, 5])})[0].shape == (1, 1, 3, 5)
        for shape, name, value in ((10, 5), "h", 10), ((5, 1), "w", 1), ((-1, 3), "h", -1):
            with guarded(), pytest.raises(SizeRangeError) as caught:
                model.run({"x": x, "s": np.array(shape)})
            assert (caught.value.name, caught.value.value) == (name, value)
        assert model.run({"x": x, "s": np.array([3, 6])})[0].shape == (1, 1, 3, 6)


def test_declared_numbers_of_outputs_are_used_with_ranges():
    """A value that differs has a program of its own."""
    counted = Counted(
        "(float[1, 1, 4, 4] x, int64[4] s) => (float[1, c, h, w] y) { y = Resize(x, , , s) }",
        dims={"h": (1, 16), "w": (1, 16), "c": 1},
    )
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    for batch, height, compiles in (1, 3, 1), (1, 16, 1), (2, 3, 2), (1, 5, 2):
        assert counted.run({"x": x, "s": np.array([batch, 1, height, 5])}) == compiles
    with pytest.raises(SizeRangeError):
        counted.compiled.run({"x": x, "s": np.array([1, 2, 3, 5])})


def test_a_number_and_a_range_that_falls_back():
    counted = Counted(RESIZED, dims={"h": 5, "w": "1..8?"})
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    for width, compiles in (3, 1), (8, 1), (9, 2), (3, 2), (9, 2):
        assert counted.run({"x": x, "s": np.array([5, width])}) == compiles
    with pytest.raises(SizeRangeError):
        counted.compiled.run({"x": x, "s": np.array([4, 3])})


def test_dimensions_that_have_no_range_of_their_own():
    """A name that no output has, and one that follows from an input."""
    for name in ("other", "k"):
        with pytest.raises(InputError, match=f"'{name}'"):
            tcopt.compile(model_of("(float[4] x) => (float[k] y) { y = Neg(x) }"), dims={name: 5})


def test_without_ranges_it_cannot_be_saved(tmp_path):
    with pytest.raises(UnsupportedError):
        tcopt.compile(model_of(RESIZED), workers=0).save(tmp_path / "m.tcm")


def test_each_element_of_a_shape_has_room():
    counted = Counted("""(float[1] x, int64[2] s) => (float[j, k] y) {
        t = Expand(x, s)
        y = Neg(t)
    }""")
    x = np.ones(1, np.float32)
    for shape, compiles in ((2, 3), 1), ((0, 9), 1), ((16, 1), 1), ((1, 17), 2), ((1, 2), 2):
        assert counted.run({"x": x, "s": np.array(shape)}) == compiles


RESHAPED = "(float[4, 6] x, int64[2] s) => (float[j, k] y) { z = Reshape(x, s) y = Neg(z) }"


def test_a_shape_whose_product_is_known():
    """No range decides that the product is 24: there is a program for each shape."""
    counted = Counted(RESHAPED)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for shape, compiles in ((8, 3), 1), ((2, 12), 2), ((-1, 3), 3), ((0, -1), 4), ((8, 3), 4):
        assert counted.run({"x": x, "s": np.array(shape)}) == compiles


def test_negative_values():
    """Data is cropped by a program of its own; others share one."""
    counted = Counted("(float[9] x, int64[2] p) => (float[k] y) { z = Pad(x, p) y = Neg(z) }")
    x = np.arange(9, dtype=np.float32)
    for pads, compiles in ((0, 2), 1), ((3, 0), 1), ((-2, 1), 2), ((16, 5), 2), ((-2, 1), 2):
        assert counted.run({"x": x, "p": np.array(pads)}) == compiles


def test_with_open_dimensions_of_inputs():
    """Two shapes have ranges, and the value keeps its room."""
    counted = Counted("(float[n] x, int64[1] r) => (float[k] y) { z = Tile(x, r) y = Neg(z) }")
    runs = (3, 2, 1), (3, 9, 1), (5, 4, 2), (7, 16, 2), (2, 17, 3), (16, 30, 3)
    for length, times, compiles in runs:
        feeds = {"x": np.ones(length, np.float32), "r": np.array([times])}
        assert counted.run(feeds) == compiles


def test_donated_inputs_are_kept_for_a_program_with_more_room():
    """A run that fails may not overwrite what the next program reads."""
    text = """(float[8] past, int64[1] r) => (float[8] next, float[k] y) {
        next = Add(past, past)
        y = Tile(next, r)
    }"""
    compiled = tcopt.compile(model_of(text), workers=0, donate={"past": "next"})
    for times in (3, 40):
        past = np.arange(8, dtype=np.float32)
        results = compiled.run({"past": past.copy(), "r": np.array([times])}, donate=["past"])
        np.testing.assert_array_equal(results[0], past * 2)
        np.testing.assert_array_equal(results[1], np.tile(past * 2, times))


def test_profiles_and_explanations_have_the_rooms_of_runs():
    counted = Counted(f"(float[40] x) => (float[k] y) {{ {COUNT} z = Tile(x, n) y = Neg(z) }}")
    feeds = {"x": np.ones(40, np.float32)}
    counted.run(feeds)
    assert counted.compiled.profile(feeds, 1).kernels[-1].origin.nodes[-1] == "Neg:y"
    assert counted.compiled.explain(feeds).calls
