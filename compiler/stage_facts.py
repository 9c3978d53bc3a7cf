"""JSON form of the part of a model after a stage."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.frontends.onnx.model.stage import ImportStage, PassedTensor, Rest
from tcopt.runtime.description import spec_facts, spec_of
from tcopt.runtime.specs import TensorSpec
from tcopt.support.data.strings import is_text
from tcopt.support.files.json_facts import FactError, Facts

Array = NDArray[Any]


def rest_facts(rest: Rest) -> dict[str, Any]:
    """Return the part after a stage as JSON values."""
    facts: dict[str, Any] = {"bounded": dict(rest.bounded)}
    return facts if rest.stage is None else {**facts, "stage": stage_facts(rest.stage)}


def rest_of(facts: Facts) -> Rest:
    """Rebuild the part after a stage from `rest_facts`.

    Raises:
        FactError: the facts are malformed.
    """
    bounded = facts.facts("bounded")
    stage = _stage_of(facts.facts("stage")) if "stage" in facts else None
    return Rest({name: bounded.text(name) for name in bounded.names}, stage)


def stage_facts(stage: ImportStage) -> dict[str, Any]:
    """Return a stage as JSON values; equal stages have equal values."""
    return {
        "nodes": list(stage.nodes),
        "outputs": list(stage.outputs),
        "inputs": [spec_facts(TensorSpec(i.name, (None,) * i.rank, i.dtype)) for i in stage.inputs],
        "known": [_array_facts(name, array) for name, array in stage.known.items()],
        "lists": {name: None if n is None else list(n) for name, n in stage.lists.items()},
        "measured": list(stage.measured),
    }


def _stage_of(facts: Facts) -> ImportStage:
    lists = facts.facts("lists")
    empty = {name for name, value in lists.values().items() if value is None}
    specs = [spec_of(each) for each in facts.items("inputs")]
    return ImportStage(
        tuple(facts.numbers("nodes")),
        tuple(facts.texts("outputs")),
        tuple(PassedTensor(spec.name, spec.dtype, len(spec.shape)) for spec in specs),
        dict(map(_array_of, facts.items("known"))),
        {name: None if name in empty else tuple(lists.texts(name)) for name in lists.names},
        tuple(facts.texts("measured")),
    )


def _array_facts(name: str, array: Array) -> dict[str, Any]:
    facts = spec_facts(TensorSpec(name, array.shape, array.dtype))
    if is_text(array.dtype):
        return {**facts, "texts": [str(text) for text in array.flat]}
    return {**facts, "bytes": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()}


def _array_of(facts: Facts) -> tuple[str, Array]:
    spec = spec_of(facts)
    shape = [extent for extent in spec.shape if isinstance(extent, int)]
    if is_text(spec.dtype):
        return spec.name, _shaped(facts, np.array(facts.texts("texts"), spec.dtype), shape)
    try:
        data = base64.b64decode(facts.text("bytes"), validate=True)
    except binascii.Error as error:
        raise FactError(f"{spec.name!r} is damaged: {error}") from None
    if len(data) % spec.dtype.itemsize:
        facts.refuse("bytes", "is not a whole number of elements")
    return spec.name, _shaped(facts, np.frombuffer(data, spec.dtype), shape)


def _shaped(facts: Facts, array: Array, shape: Sequence[int]) -> Array:
    if array.size != prod(shape):
        facts.refuse("shape", f"does not have {array.size} elements")
    return array.reshape(shape)
