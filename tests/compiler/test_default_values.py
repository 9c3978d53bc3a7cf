"""Initializers that are also inputs: default values that a feed may override."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto, numpy_helper

import tcopt
from tcopt.runtime.defaults import Defaults
from tcopt.runtime.specs import TensorSpec
from tcopt.support.errors import CancelledError, InputError

X = np.array([1, 2], np.float32)
W = np.array([100, 200], np.float32)
DEFAULT = np.array([10, 20], np.float32)


def model(body: str = "y = Add(x, w)", *, ir: int = 8, w: str = "float[2] w", more: str = ""):
    header = f'<ir_version: {ir}, opset_import: ["" : 17]>'
    default = f"<{w} = {{10, 20}}{more}>"
    return onnx.parser.parse_model(
        f"{header} g (float[n] x, {w.replace('[2]', '[m]')}) => (float[k] y) {default} {{ {body} }}"
    )


def fixed(source: ModelProto) -> ModelProto:
    source.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    source.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 2
    return source


@pytest.mark.parametrize("prepare", [fixed, lambda source: source], ids=["fixed", "open"])
def test_a_feed_overrides_a_default(prepare):
    compiled = tcopt.compile(prepare(model()), cache=False)
    for _ in range(2):
        np.testing.assert_array_equal(compiled.run({"x": X})[0], X + DEFAULT)
        np.testing.assert_array_equal(compiled.run({"x": X, "w": W})[0], X + W)
        np.testing.assert_array_equal(compiled.run({"w": W + 1, "x": X}, ["y"])[0], X + W + 1)
    assert [spec.name for spec in compiled.inputs] == ["x"]


def test_defaults_of_other_ranks_and_extents():
    compiled = tcopt.compile(model("y = Concat<axis=0>(x, w)"), cache=False)
    for extent in (0, 1, 3):
        w = np.arange(extent, dtype=np.float32)
        np.testing.assert_array_equal(compiled.run({"x": X, "w": w})[0], [*X, *w])


def test_several_defaults_are_overridden_one_by_one():
    source = model("s = Mul(x, v) y = Add(s, w)", more=", float[1] v = {3}")
    source.graph.input.append(onnx.helper.make_tensor_value_info("v", 1, [1]))
    compiled = tcopt.compile(source, cache=False)
    v = np.array([5], np.float32)
    for feeds in ({}, {"v": v}, {"w": W}, {"v": v, "w": W}):
        expected = X * feeds.get("v", 3) + feeds.get("w", [10, 20])
        np.testing.assert_array_equal(compiled.run({"x": X, **feeds})[0], expected)


def test_defaults_that_decide_shapes():
    source = model("y = Expand(x, w)", w="int64[2] w")
    compiled = tcopt.compile(source, cache=False)
    x = np.ones(1, np.float32)
    assert compiled.run({"x": x})[0].shape == (10, 20)
    for extents in ([2, 3], [3, 1]):
        assert compiled.run({"x": x, "w": np.array(extents)})[0].shape == tuple(extents)


def test_defaults_stored_sparsely():
    source = fixed(model())
    dense = source.graph.initializer.pop()
    sparse = source.graph.sparse_initializer.add()
    sparse.values.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(dense), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.arange(2)))
    sparse.dims.append(2)
    compiled = tcopt.compile(source, cache=False)
    np.testing.assert_array_equal(compiled.run({"x": X})[0], X + DEFAULT)
    np.testing.assert_array_equal(compiled.run({"x": X, "w": W})[0], X + W)


def test_a_shape_makes_a_default_an_input(tmp_path: Path):
    compiled = tcopt.compile(fixed(model()), shapes={"w": (2,)}, cache=False)
    assert [spec.name for spec in compiled.inputs] == ["x", "w"]
    compiled.save(tmp_path / "m.tcm")
    loaded = tcopt.load(tmp_path / "m.tcm")
    np.testing.assert_array_equal(loaded.run({"x": X, "w": W})[0], X + W)
    with pytest.raises(InputError, match='"w"'):
        loaded.run({"x": X})


def test_saved_models_keep_their_defaults(tmp_path: Path):
    compiled = tcopt.compile(fixed(model()), cache=False)
    compiled.save(tmp_path / "m.tcm")
    with pytest.raises(InputError, match='"w"') as caught:
        tcopt.load(tmp_path / "m.tcm").run({"x": X, "w": W})
    assert "shape" in (caught.value.hint or "")


@pytest.mark.parametrize("feed", [W.astype(np.float64).astype(str), np.ones((2, 2), np.float32)])
def test_feeds_that_do_not_fit_the_declaration_are_refused(feed: np.ndarray):
    compiled = tcopt.compile(fixed(model()), cache=False)
    with pytest.raises(InputError, match='"w"'):
        compiled.run({"x": X, "w": feed})


def test_weights_before_version_4_are_not_fed():
    compiled = tcopt.compile(fixed(model(ir=3)), cache=False)
    np.testing.assert_array_equal(compiled.run({"x": X})[0], X + DEFAULT)
    with pytest.raises(InputError, match='"w"'):
        compiled.run({"x": X, "w": W})


def test_the_model_may_change_after_it_was_compiled():
    source = fixed(model("s = Add(x, x) y = Add(s, w)"))
    compiled = tcopt.compile(source, cache=False)
    source.graph.node[0].op_type = "Mul"
    np.testing.assert_array_equal(compiled.run({"x": X, "w": W})[0], 2 * X + W)


def test_cancellation_holds_for_overridden_runs():
    compiled = tcopt.compile(fixed(model()), cache=False)
    feeds, cancellation = {"x": X, "w": W}, tcopt.Cancellation()
    cancellation.cancel()
    with pytest.raises(CancelledError):
        compiled.run(feeds, cancellation=cancellation)
    np.testing.assert_array_equal(compiled.run(feeds)[0], X + W)


def test_overridden_runs_are_explained():
    compiled = tcopt.compile(fixed(model()), cache=False)
    assert compiled.explain({"x": X, "w": W}).calls


class _Met(Defaults):
    """Default values whose compile must run once, although two threads request it."""

    def __init__(self, compiled: tcopt.Model) -> None:
        super().__init__()
        self.compiled, self.count, self.both = compiled, 0, Barrier(2)

    def declared(self) -> list[TensorSpec]:
        return [TensorSpec("w", (2,), np.dtype(np.float32))]

    def compile(self, shapes: Mapping[str, tuple[int, ...]]) -> tcopt.Model:
        self.count += 1
        with suppress(BrokenBarrierError):
            self.both.wait(0.2)
        return self.compiled


def test_threads_that_override_a_default_at_once_compile_once():
    net = "g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }"
    plain = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {net}')
    compiled = tcopt.compile(fixed(model()), cache=False)
    defaults = compiled.defaults = _Met(tcopt.compile(plain, cache=False))
    with ThreadPoolExecutor(2) as pool:
        for (y,) in pool.map(lambda n: compiled.run({"x": X, "w": W + n}, timeout=100), range(2)):
            assert y[0] - X[0] - W[0] in (0, 1)
    assert defaults.count == 1
