"""The initializers of a graph."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto, SparseTensorProto, TensorProto

Weight = TensorProto | SparseTensorProto
"""An initializer: dense or sparse."""


def graph_weights(graph: GraphProto) -> Iterator[tuple[str, Weight]]:
    """Yield the initializers of a graph with their names."""
    for weight in graph.initializer:
        yield weight.name, weight
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, sparse
