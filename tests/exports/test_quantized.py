"""Exported networks quantised with onnxruntime's tools."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from onnx import ModelProto

from exports.running import Run, compiled, interpreted, quantized_export, steps_apart
from exports.stored import load


@pytest.mark.nightly(every=9)
@pytest.mark.parametrize(
    ("name", "kind", "way"),
    [
        ("efficientnet.dynamo.18", "QOperator", interpreted),
        ("vit.dynamo.18", "QOperator", interpreted),
        ("unet_bilinear.legacy.17", "QOperator", interpreted),
        ("lstm.legacy.14", "dynamic", compiled),
        ("bert.dynamo.18", "dynamic", interpreted),
        ("gpt2.legacy.14", "QDQ", interpreted),
        ("llama.legacy.17", "dynamic", interpreted),
    ],
)
def test_results(name: str, kind: str, way: Callable[[ModelProto], Run]) -> None:
    """Integer sums are exact; float computations between them round differently, so a value at a
    tie may quantise to the next step."""
    assert steps_apart(quantized_export(load(name), kind), way) <= 1.01
