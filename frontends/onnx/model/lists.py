"""Inputs and outputs of a model that are sequences or optionals.

They become separate tensors of the program; their number follows from the given shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tcopt.frontends.onnx.model.inputs import ModelInput
from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, ModelLimits
from tcopt.frontends.onnx.model.options import Shapes
from tcopt.frontends.onnx.model.values import (
    NOTHING,
    MapsValue,
    OptionalValue,
    SequenceValue,
    Value,
)
from tcopt.support.data.structures import Count, Kind, tensor_names
from tcopt.support.errors import ImportModelError, InputError


def expand_lists(
    inputs: Sequence[ModelInput], shapes: Shapes, limits: ModelLimits = DEFAULT_LIMITS
) -> tuple[list[ModelInput], dict[str, Count], Shapes]:
    """Expand sequences and optionals among a model's inputs to tensors.

    A sequence or optional without given shapes is kept.

    Returns:
        The inputs; the number of tensors of each sequence or optional; the shapes of tensors.

    Raises:
        InputError: shapes do not fit the inputs.
        ImportModelError: a tensor of a sequence has the name of another input.
    """
    found: list[ModelInput] = []
    counts: dict[str, Count] = {}
    plain = dict(shapes)
    for item in inputs:
        if item.kind is Kind.TENSOR or item.name not in shapes:
            found.append(item)
            continue
        given = plain.pop(item.name)
        shapes_of_item = _shapes_of(item, given, limits)
        count = counts[item.name] = None if given is None else len(shapes_of_item)
        names = tensor_names(item.name, item.kind, count)
        for name, shape in zip(names, shapes_of_item, strict=True):
            dims = None if item.kind.is_sequence else item.dims
            found.append(replace(item, name=name, kind=Kind.TENSOR, dims=dims))
            plain[name] = shape
    names = [item.name for item in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ImportModelError(
            f"an input and a tensor of a sequence are both called {twice!r}",
            hint="give the input another name",
        )
    return found, counts, plain


def _shapes_of(item: ModelInput, given: Any, limits: ModelLimits) -> list[Any]:
    """Return the shape of each tensor of a sequence or optional."""
    if given is None:
        if item.kind.is_optional:
            return []
        raise InputError(f"input {item.name!r} is a {item.kind}, which cannot be None")
    if not item.kind.is_sequence:
        return [given]
    if not isinstance(given, list | tuple) or any(isinstance(s, int) for s in given):
        raise InputError(
            f"input {item.name!r} is a {item.kind}, its shape cannot be {given!r}",
            hint=f'give the shape of each, as in shapes={{"{item.name}": [[1, 3], [2, 3]]}}',
        )
    if len(given) > limits.nodes:
        raise InputError(
            f"input {item.name!r} has {len(given)} tensors",
            hint=f"if this length is intended, raise the limit nodes={limits.nodes}",
        )
    return list(given)


def value_of(item: ModelInput, counts: Mapping[str, Count], tensors: Mapping[str, Any]) -> Value:
    """Return the value of an input, given all tensors.

    Args:
        tensors: tensors of all inputs by name.
    """
    if item.kind is Kind.TENSOR:
        return tensors[item.name]
    count = counts[item.name]
    if count is None:
        return NOTHING
    found = tuple(tensors[name] for name in tensor_names(item.name, item.kind, count))
    return SequenceValue(found) if item.kind.is_sequence else found[0]


def described(value: Value) -> str:
    """Return the kind of a value, for messages."""
    match value:
        case SequenceValue():
            return f"a sequence of {len(value.items)} tensors"
        case MapsValue():
            return "a sequence of maps"
        case OptionalValue():
            return "an optional without an element"
        case _:
            return "a tensor"
