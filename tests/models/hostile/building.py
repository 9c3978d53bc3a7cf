"""Helpers to build hostile models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Hostile = ModelProto | bytes | Callable[[Path], Path]
Models = Iterator[tuple[str, Hostile]]
MOST = 2**63 - 1


def node(op: str, inputs: str = "x", outputs: str = "y", **attributes) -> NodeProto:
    """Return a node, named after its first output."""
    results = outputs.split()
    name = f"n_{results[0]}" if results else "n"
    return helper.make_node(op, inputs.split(), results, name=name, **attributes)


def info(name: str, dims=None, element: int = FLOAT):
    """Return a declaration of a value."""
    return helper.make_tensor_value_info(name, element, dims)


def model_of(
    *nodes: NodeProto, shape=(2, 3), outputs: str = "y", weights=None, opset: int = 17, **options
) -> ModelProto:
    """Return a model with one input x; weights are arrays by name."""
    tensors = [
        value if isinstance(value, TensorProto) else numpy_helper.from_array(value, name)
        for name, value in (weights or {}).items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs.split()]
    graph = helper.make_graph(list(nodes), "test", [info("x", shape)], results, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **options)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)
