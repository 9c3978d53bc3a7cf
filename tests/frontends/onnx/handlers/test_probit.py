"""The transform of scores to normal quantiles, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from models.checks import check_model
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import UnsupportedError

ML = "ai.onnx.ml"
TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.25, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def model_of(op_type: str, outputs: int, **attributes) -> ModelProto:
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(
        op_type, ["x"], names, name="node", domain=ML, post_transform="PROBIT", **attributes
    )
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (6, 2))]
    results = [helper.make_empty_tensor_value_info(name) for name in names]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    graph = helper.make_graph([node], "g", infos, results)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def leaves(name: str, ids: list[int], nodes: list[int], weights: list[float]) -> dict:
    return {
        f"{name}_ids": ids,
        f"{name}_nodeids": nodes,
        f"{name}_treeids": [0] * len(ids),
        f"{name}_weights": weights,
    }


@pytest.mark.parametrize(
    "model",
    [
        model_of("LinearRegressor", 1, coefficients=[1.0, 0.9], targets=1),
        model_of("LinearRegressor", 1, coefficients=[1.0, 0.9, 0.5, 0.1], targets=2),
        model_of(
            "LinearClassifier",
            2,
            coefficients=[0.5] * 6,
            intercepts=[0.0] * 3,
            classlabels_ints=[3, 1, 2],
        ),
        model_of(
            "TreeEnsembleRegressor",
            1,
            n_targets=1,
            **TREE,
            **leaves("target", [0, 0], [1, 2], [0.2, 0.9]),
        ),
        model_of(
            "TreeEnsembleClassifier",
            2,
            classlabels_int64s=[0, 1, 2],
            **TREE,
            **leaves(
                "class", [0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2], [0.2, 0.9, 0.4, 0.5, 0.1, 0.3]
            ),
        ),
    ],
)
def test_probit(model: ModelProto, rng):
    """The tolerance is that of f32 logarithms near 1, where a quantile is near 0."""
    feeds = {"x": rng.uniform(0.02, 0.5, (6, 2)).astype(np.float32)}
    check_model(model, feeds, 1e-4)


def test_two_classes_are_refused():
    """onnxruntime returns scores of other rows for these."""
    model = model_of("LinearClassifier", 2, coefficients=[1.0, 0.5], classlabels_ints=[0, 1])
    with pytest.raises(UnsupportedError, match="PROBIT of two classes") as caught:
        import_model(model)
    assert caught.value.where == "node" and caught.value.hint
