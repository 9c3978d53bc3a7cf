"""Networks exported by PyTorch, against onnxruntime; `make exports` compiles all of them."""

from __future__ import annotations

import pytest

from exports.running import TOLERANCE, compiled, interpreted, worst_error
from exports.stored import load, stored_models

_COMPILED = ["efficientnet.legacy.17", "gru.dynamo.18", "vit.dynamo.23"]


@pytest.mark.nightly(every=9)
@pytest.mark.parametrize("name", stored_models())
def test_import(name: str) -> None:
    assert worst_error(load(name), interpreted) <= TOLERANCE


@pytest.mark.nightly(daily=["gru.dynamo.18"])
@pytest.mark.parametrize("name", _COMPILED)
def test_compile(name: str) -> None:
    assert worst_error(load(name), compiled, sets=1) <= TOLERANCE


@pytest.mark.nightly
def test_growing_cache() -> None:
    """Each run adds a token, so keys and values have new shapes."""
    assert worst_error(load("gpt2.legacy.14"), compiled) <= TOLERANCE
