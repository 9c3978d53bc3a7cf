"""Models that are compiled for ranges of sizes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

import tcopt
from models.network import Network
from models.sized_models import SIZED_MODELS, SizedModel
from tcopt.frontends.onnx import import_model
from tcopt.frontends.onnx.model.errors import OpenSizeError
from tcopt.interpreters.graph import run_module
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.remarks import PlacementWarning
from tcopt.targets.opencl import OpenCLKind


def model_of(net: Network, result: str) -> ModelProto:
    model = net.model(**{result: []})
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def mlp() -> ModelProto:
    net = Network("mlp")
    x = net.input("x", ["n", 12])
    return model_of(net, net.gemm(net.add("Relu", net.gemm(x, 12, 20)), 20, 5))


def squeezed() -> ModelProto:
    """A model whose rank depends on a size."""
    net = Network("squeezed")
    return model_of(net, net.add("Squeeze", net.input("x", ["n", 1, 12])))


def check(model: ModelProto, compiled: tcopt.Model, *shapes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    feeds = {
        spec.name: rng.standard_normal(shape).astype(np.float32)
        for spec, shape in zip(compiled.inputs, shapes, strict=True)
    }
    fixed = import_model(model, shapes={name: x.shape for name, x in feeds.items()})
    (wanted,) = run_module(fixed, list(feeds.values()))
    (found,) = compiled.run(feeds)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.nightly(daily=["causal", "images"])
@pytest.mark.parametrize("case", SIZED_MODELS.values(), ids=SIZED_MODELS)
def test_networks(case: SizedModel):
    model = case.build()
    compiled = tcopt.compile(model, dims=case.dims, workers=0)
    for numbers in case.values:
        named = {**case.dims, **numbers}
        shapes = ([named.get(str(dim), dim) for dim in spec.dims] for spec in compiled.inputs)
        check(model, compiled, *map(tuple, shapes))


@pytest.mark.parametrize("given", [(1, 20), "2..20:2"], ids=str)
def test_one_program_serves_a_range(given):
    model = mlp()
    compiled = tcopt.compile(model, dims={"n": given}, workers=0)
    assert compiled.extents() == {}
    for rows in (2, 6, 20):
        check(model, compiled, (rows, 12))
    with pytest.raises(InputError):
        compiled.run({"x": np.zeros((21, 12), np.float32)})


def test_models_without_a_program_for_a_range():
    model = squeezed()
    with pytest.raises(OpenSizeError, match="Squeeze") as caught:
        tcopt.compile(model, dims={"n": (1, 9)})
    assert caught.value.names == ("n",) and "1..512?" in (caught.value.hint or "")
    compiled = tcopt.compile(model, dims={"n": "1..9?"}, workers=0)
    for rows in (1, 4):
        check(model, compiled, (rows, 1, 12))
    with pytest.raises(TcoptError):
        compiled.run({"x": np.zeros((10, 1, 12), np.float32)})


def test_targets_whose_programs_have_one_size(monkeypatch):
    monkeypatch.setattr(OpenCLKind, "serves_sizes", False)
    with pytest.raises(OpenSizeError, match="opencl"):
        tcopt.compile(mlp(), target="opencl", dims={"n": (1, 9)})
    lazy = tcopt.compile(mlp(), target="opencl", dims={"n": "1..9?"})
    assert lazy.inputs[0].shape[0] == "n"


def test_accelerators_leave_sizes_to_the_host():
    net = Network("bytes")
    x, w = net.input("x", ["n", 32], TensorProto.INT8), net.weight(np.ones((32, 16), np.int8))
    with pytest.warns(PlacementWarning, match="MatMulInteger.*fixed extents"):
        sums = net.add("Cast", net.add("MatMulInteger", x, w), to=TensorProto.FLOAT)
        compiled = tcopt.compile(model_of(net, sums), "vdla", dims={"n": (1, 9)}, workers=0)
    for rows in (1, 7):
        (found,) = compiled.run({"x": np.ones((rows, 32), np.int8)})
        np.testing.assert_array_equal(found, np.full((rows, 16), 32))
