"""Models with open dimensions: one program for many shapes, compiled in runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto

import tcopt
from models.network import Network
from tcopt.compiler.open_sizes import OpenSizes
from tcopt.frontends.onnx import import_model
from tcopt.interpreters.graph import run_module
from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.sizes import Size, bounds_of
from tcopt.support.errors import UnsupportedError
from tcopt.support.remarks import collect_remarks

F32 = np.dtype(np.float32)


def model_of(net: Network, result: str) -> ModelProto:
    model = net.model(**{result: []})
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


class Counted:
    """A compiled model that counts its compiles, and checks its results."""

    def __init__(self, model: ModelProto):
        self.model = model
        self._steps: list[str] = []
        self.compiled = tcopt.compile(
            model, workers=0, progress=lambda name, *_: self._steps.append(name)
        )

    def compiles(self, *shape: int) -> int:
        """Run the model for a shape of its input; return the number of compiles."""
        before = self._steps.count("done")
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        (found,) = self.compiled.run({"x": x})
        (wanted,) = run_module(import_model(self.model, shapes={"x": shape}), [x])
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        return self._steps.count("done") - before


@pytest.mark.parametrize("batch", ["n", "?"])
def test_the_second_shape_compiles_for_a_range(batch: str):
    net = Network("mlp")
    x = net.input("x", [batch, 12])
    model = Counted(model_of(net, net.gemm(net.add("Relu", net.gemm(x, 12, 20)), 20, 5)))
    assert [model.compiles(n, 12) for n in (3, 3, 5, 1, 16, 7, 3)] == [1, 0, 1, 0, 0, 0, 0]
    with pytest.raises(UnsupportedError, match="open"):
        model.compiled.save("unused.tcm")


def test_larger_sizes_compile_with_more_room():
    net = Network("softmax")
    model = Counted(model_of(net, net.add("Softmax", net.input("x", ["n", 6]), axis=-1)))
    sizes = (2, 9, 16, 17, 32, 3, 100, 128)
    assert [model.compiles(n, 6) for n in sizes] == [1, 1, 0, 1, 0, 0, 1, 0]


def test_attention_with_an_open_length():
    net = Network("attention")
    x = net.input("x", ["length", 8])
    scores = net.add("MatMul", x, net.add("Transpose", x, perm=[1, 0]))
    model = Counted(model_of(net, net.add("MatMul", net.add("Softmax", scores, axis=-1), x)))
    assert [model.compiles(n, 8) for n in (4, 9, 1, 8, 16, 13)] == [1, 1, 0, 0, 0, 0]


def test_ranges_start_below_the_smallest_size_if_one_is_too_few():
    net = Network("squeezed")
    model = Counted(model_of(net, net.add("Squeeze", net.input("x", ["n", 1, 4]))))
    sizes = (5, 7, 4, 3, 2, 1, 6, 1)
    assert [model.compiles(n, 1, 4) for n in sizes] == [1, 1, 0, 1, 0, 1, 0, 0]


def test_models_without_a_program_for_a_range_have_one_for_each_shape():
    net = Network("squeezed")
    model = Counted(model_of(net, net.add("Squeeze", net.input("x", ["n", 1, 4]))))
    with collect_remarks() as remarks:
        assert [model.compiles(n, 1, 4) for n in (1, 5, 6, 1)] == [1, 1, 1, 0]
    (remark,) = (remark for remark in remarks if remark.by == "compile")
    assert remark.subject == "n" and remark.missed and "Squeeze" in str(remark)
    explained = model.compiled.explain({"x": np.ones((7, 1, 4), np.float32)})
    assert remark in explained.others


def sizes_of(*inputs: tuple[int | str | None, ...]) -> OpenSizes:
    return OpenSizes(
        [TensorSpec(name, shape, F32) for name, shape in zip("abc", inputs, strict=False)], {}
    )


def after(sizes: OpenSizes, *combinations: tuple[tuple[int, ...], ...]) -> list[str] | None:
    """Return the shapes of the program for the last combination; None if it is not shared."""
    found: Mapping[str, tuple[object, ...]] = {}
    for each in combinations:
        shapes = dict(zip("abc", each, strict=False))
        seen = sizes.widened(shapes)
        if seen is not None:
            sizes.accept(seen)
        found = sizes.shapes_of(shapes)
    if not any(isinstance(extent, Size) for shape in found.values() for extent in shape):
        return None
    return [" ".join(map(str, shape)) for shape in found.values()]


def test_only_dimensions_that_vary_are_sizes():
    sizes = sizes_of(("b", "l", 8))
    assert after(sizes, ((1, 5, 8),)) is None
    assert after(sizes, ((1, 9, 8),)) == ["1 l 8"]
    assert after(sizes, ((1, 5, 8),)) is None
    assert after(sizes, ((3, 40, 8),)) == ["b l 8"]
    (shape,) = sizes.shapes_of({"a": (2, 3, 8)}).values()
    assert [bounds_of(extent) for extent in shape] == [(1, 16), (1, 64), (8, 8)]


def test_dimensions_that_were_always_equal_share_a_size():
    sizes = sizes_of((None, 4), (None, 4))
    assert after(sizes, ((2, 4), (2, 4)), ((3, 4), (3, 4))) == ["a_0 4", "a_0 4"]
    assert after(sizes, ((3, 4), (5, 4))) == ["a_0 4", "b_0 4"]


def test_one_name_with_two_extents():
    sizes = sizes_of(("n",), ("n",))
    assert after(sizes, ((2,), (4,)), ((3,), (5,))) == ["n", "b_0"]


def test_derived_dimensions_follow_from_names():
    sizes = sizes_of(("past + 1",), ("past",))
    assert after(sizes, ((3,), (2,)), ((6,), (5,))) == ["past + 1", "past"]
    assert after(sizes, ((6,), (9,))) == ["a_0", "past"]


def test_empty_tensors_have_their_own_program():
    sizes = sizes_of(("n",))
    assert after(sizes, ((2,),), ((0,),)) is None
    assert after(sizes, ((4,),)) == ["n"]
    assert after(sizes, ((0,),)) is None
