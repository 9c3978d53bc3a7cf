"""Forms written by other exporters: sparse weights, and operators of old opsets."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, parser

from models.checks import check_model, check_node, node_model
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import ImportModelError, UnsupportedError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def sparse(indices: list, dims: list[int], name: str = "w"):
    places = np.array(indices, np.int64)
    values = helper.make_tensor(name, TensorProto.FLOAT, [len(indices)], [5.0, 7.0])
    kept = helper.make_tensor(f"{name}_i", TensorProto.INT64, places.shape, places.ravel())
    return helper.make_sparse_tensor(values, kept, dims)


def with_initializer(weight) -> ModelProto:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (y) { y = Add(x, w) }'
    )
    model.graph.sparse_initializer.append(weight)
    return model


INDICES = {"linear": [1, 5], "by axis": [[0, 1], [1, 2]]}


@pytest.mark.parametrize("kind", INDICES)
def test_sparse_initializers(kind: str):
    check_model(with_initializer(sparse(INDICES[kind], [2, 3])), {"x": X})


@pytest.mark.parametrize("kind", INDICES)
def test_sparse_constants(kind: str):
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (y) { y = Add(x, w) }'
    )
    node = helper.make_node("Constant", [], ["w"], sparse_value=sparse(INDICES[kind], [2, 3]))
    model.graph.node.insert(0, node)
    check_model(model, {"x": X})


@pytest.mark.parametrize(
    "indices, dims",
    [([1, 6], [2, 3]), ([-1, 0], [2, 3]), ([[0, 3], [0, 0]], [2, 3]), ([[0], [1]], [2, 3]),
     ([0, 1], [2**20, 2**20])],
)  # fmt: skip
def test_malformed_sparse_initializers(indices: list, dims: list[int]):
    with pytest.raises(ImportModelError, match="w"):
        import_model(with_initializer(sparse(indices, dims)))


@pytest.mark.parametrize("shape", [(2, 3, 2, 2), (2, 3)])
def test_batch_normalization_of_features(shape: tuple[int, ...], rng):
    inputs = [rng.random(shape, np.float32)]
    inputs += [rng.random(shape[1:], np.float32) + 0.5 for _ in range(4)]
    check_node("BatchNormalization", *inputs, opset=8, spatial=0, epsilon=1e-3)


@pytest.mark.parametrize("backwards", [0, 1])
def test_scan_of_sequences_with_lengths(backwards: int):
    model = parser.parse_model(f"""
        <ir_version: 3, opset_import: ["" : 8]>
        g (float[2,2] h, float[2,3,2] x) => (float[2,2] y, float[2,3,2] o)
          <int64[2] lens = {{2, 3}}> {{
          y, o = Scan <num_scan_inputs = 1, directions = [{backwards}],
                       body = b (float[2] s, float[2] p) => (float[2] t, float[2] q) {{
                         t = Add(s, p)
                         q = Identity(t)
                       }}> (lens, h, x)
        }}""")
    model.graph.input.append(helper.make_tensor_value_info("lens", TensorProto.INT64, [2]))
    feeds = {"h": np.zeros((2, 2), np.float32), "x": np.arange(12, dtype=np.float32)}
    check_model(model, {**feeds, "x": feeds["x"].reshape(2, 3, 2)})


@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_operators_of_opsets_before_the_oldest_form(op_type: str):
    """The error names the opset of the supported form."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type]
    inputs = [np.ones((4, 2, 3)), np.ones((1, 2 * gates, 3)), np.ones((1, 2 * gates, 2))]
    model = node_model(op_type, [a.astype(np.float32) for a in inputs], opset=6, hidden_size=2)
    with pytest.raises(UnsupportedError, match=op_type) as caught:
        import_model(model)
    assert "opset 7" in str(caught.value.hint)
