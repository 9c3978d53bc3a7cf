"""Default values of inputs: initializers that are also listed as inputs of a graph.

A default is a constant of the compiled model unless the input is given a shape or a value; then it
is an ordinary input.
"""

from __future__ import annotations

from collections.abc import Collection

from onnx import ModelProto

from tcopt.frontends.onnx.model.initializers import graph_weights

_FIRST_IR = 4
"""In older IR versions all initializers had to be listed as inputs, and could not be overridden."""


def default_names(model: ModelProto) -> set[str]:
    """Return the names of a model's inputs that have a default value."""
    if model.ir_version < _FIRST_IR:
        return set()
    weights = {name for name, _ in graph_weights(model.graph)}
    return {info.name for info in model.graph.input if info.name in weights}


def without_defaults(model: ModelProto, given: Collection[str]) -> ModelProto:
    """Return a model in which the given inputs have no default value.

    Args:
        given: names of inputs; those without a default are ignored.
    Returns:
        `model` itself, or a modified copy if any default was removed.
    """
    fed = default_names(model).intersection(given)
    if not fed:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    dense = [weight for weight in graph.initializer if weight.name not in fed]
    sparse = [weight for weight in graph.sparse_initializer if weight.values.name not in fed]
    del graph.initializer[:], graph.sparse_initializer[:]
    graph.initializer.extend(dense)
    graph.sparse_initializer.extend(sparse)
    return copy
