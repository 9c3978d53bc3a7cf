"""Small ONNX models for the tests of the tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save_dense_relu(path: Path, *, op: str = "Relu", batch: int | str = 2) -> None:
    """y = op(x @ w + b) for x of `batch` rows and 8 columns, y of 4 columns."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((8, 4)).astype(np.float32)
    b = rng.standard_normal(4).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["h"], name="dense"),
            helper.make_node(op, ["h"], ["y"], name="activation"),
        ],
        "dense_relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def dense_relu(x: np.ndarray) -> np.ndarray:
    """Evaluate the model of `save_dense_relu` in numpy."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((8, 4)).astype(np.float32)
    b = rng.standard_normal(4).astype(np.float32)
    return np.maximum(x @ w + b, 0)
