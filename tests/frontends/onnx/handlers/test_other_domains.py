"""Operators of ONNX's other domains: optimiser steps, features, and functions."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from models.checks import run_imported, run_reference
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError, UnsupportedError

TRAINING, ML = "ai.onnx.preview.training", "ai.onnx.ml"


def model_of(
    op_type: str, domain: str, version: int, inputs: list[np.ndarray], outputs: int, **attributes
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """Return a model with one node, and its feeds."""
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, list(feeds), names, domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    graph = helper.make_graph([node], "g", infos, results)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize(
    ("op_type", "kept", "attributes"),
    [
        ("Adagrad", 1, {"decay_factor": 0.1, "epsilon": 1e-5, "norm_coefficient": 0.01}),
        ("Momentum", 1, {"mode": "standard"}),
        ("Momentum", 1, {"mode": "nesterov"}),
        ("Adam", 2, {"alpha": 0.95, "beta": 0.1, "norm_coefficient_post": 0.2}),
    ],
)
def test_optimizers(op_type: str, kept: int, attributes: dict, steps: int, rng):
    """Two tensors of different shapes in one node, against onnx's own evaluator."""
    if op_type == "Momentum":
        attributes = {"alpha": 0.9, "beta": 0.4, "norm_coefficient": 0.01, **attributes}
    shapes = [(2, 3), (5,)]
    tensors = [rng.uniform(0.5, 1, s).astype(np.float32) for _ in range(2 + kept) for s in shapes]
    inputs = [np.array(0.1, np.float32), np.array(steps, np.int64), *tensors]
    model, feeds = model_of(op_type, TRAINING, 1, inputs, 2 * (1 + kept), **attributes)
    expected = ReferenceEvaluator(model).run(None, feeds)
    for ours, theirs in zip(run_imported(model, feeds), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_features(shape: tuple[int, ...], rng):
    x, places = rng.standard_normal(shape).astype(np.float32), np.array([[3, 0, 3]], np.int64)
    for op_type, inputs, attributes in (
        ("ArrayFeatureExtractor", [x, places], {}),
        ("Binarizer", [x], {"threshold": 0.25}),
    ):
        if op_type == "Binarizer" and len(shape) > 2:
            continue
        model, feeds = model_of(op_type, ML, 1, inputs, 1, **attributes)
        (ours,), (theirs,) = run_imported(model, feeds), run_reference(model, feeds)
        np.testing.assert_array_equal(ours, theirs)
    model, _ = model_of("ArrayFeatureExtractor", ML, 1, [x, places], 1)
    weight = helper.make_tensor("x1", TensorProto.INT64, [1], [9])
    model.graph.initializer.append(weight)
    with pytest.raises(ImportModelError, match="axis of 4 from 9 to 9 should"):
        import_model(model)


def test_operators_are_of_the_version_that_the_model_imports():
    x = np.ones((2, 3), np.float32)
    model, _ = model_of("DictVectorizer", ML, 1, [x], 1, string_vocabulary=["a"])
    with pytest.raises(UnsupportedError, match=r"operator ai.onnx.ml.DictVectorizer is not"):
        import_model(model)
    model, _ = model_of("Binarizer", ML, 1, [x], 1)
    del model.opset_import[1]
    with pytest.raises(UnsupportedError, match="of no opset"):
        import_model(model)
    model, _ = model_of("Adagrad", TRAINING, 1, [x, x, x], 1)
    with pytest.raises(
        ImportModelError, match=r"input 1 \(T\) of Adagrad cannot be tensor\(float\)"
    ):
        import_model(model)
