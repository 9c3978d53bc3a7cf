"""Networks exported by PyTorch, against onnxruntime; `make exports` compiles all of them."""

from __future__ import annotations

import pytest

from exports.running import TOLERANCE, compiled, interpreted, worst_error
from exports.stored import load, stored_models
from tcopt.frontends.onnx import import_model
from tcopt.passes.fix_sizes import free_symbols
from tcopt.support.arithmetic.size_parser import names_in

_COMPILED = ["efficientnet.legacy.17", "gru.dynamo.18", "vit.dynamo.23"]


@pytest.mark.nightly(every=9)
@pytest.mark.parametrize("name", stored_models())
def test_import(name: str) -> None:
    assert worst_error(load(name), interpreted) <= TOLERANCE


_IMAGES = {"height": (32, 512, 32), "width": (32, 512, 32)}


@pytest.mark.nightly(every=6)
@pytest.mark.parametrize("name", stored_models())
def test_dynamic_axes_are_ranges(name: str) -> None:
    """Batches, lengths and caches from 1; networks that halve images need multiples."""
    model = load(name)
    dims = [dim for info in model.graph.input for dim in info.type.tensor_type.shape.dim]
    names = {each for dim in dims if dim.dim_param for each in names_in(dim.dim_param)}
    module = import_model(model, dims={name: _IMAGES.get(name, (1, 64)) for name in names})
    assert {symbol.name for symbol in free_symbols(module)} == names


@pytest.mark.nightly(daily=["gru.dynamo.18"])
@pytest.mark.parametrize("name", _COMPILED)
def test_compile(name: str) -> None:
    assert worst_error(load(name), compiled, sets=1) <= TOLERANCE


@pytest.mark.nightly
def test_growing_cache() -> None:
    """Each run adds a token, so keys and values have new shapes."""
    assert worst_error(load("gpt2.legacy.14"), compiled) <= TOLERANCE
