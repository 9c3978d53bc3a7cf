"""Space of cases: named fields with their values, and a function that builds a model of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

MOST_WORK = 400_000_000
"""Maximum products of a layer, so that a case takes milliseconds."""

Choice = int | float | str | bool
Fields = Mapping[str, Choice]


@dataclass(frozen=True)
class Space:
    """The possible cases of one kind.

    Attributes:
        fields: the values of each field, the simplest first.
        build: builds the model of some values; returns None if they are not valid.
    """

    fields: Mapping[str, tuple[Choice, ...]]
    build: Callable[[Any], ModelProto | None]

    def draw(self, rng: np.random.Generator) -> dict[str, Choice]:
        """Draw values that give a model."""
        while True:
            found = {n: values[rng.integers(len(values))] for n, values in self.fields.items()}
            if self.build(_Given(found)) is not None:
                return found

    def model(self, fields: Fields) -> ModelProto | None:
        """Return the model of some values, or None if they do not give one."""
        made = self.build(_Given(fields))
        return made if made is None else _with_precision(made, half=bool(fields.get("half")))

    def smaller(self, fields: Fields) -> Iterator[dict[str, Choice]]:
        """Yield cases with one field simplified: to the simplest value first, then to the previous
        one."""
        for name, values in self.fields.items():
            place = values.index(fields[name])
            for simpler in dict.fromkeys((0, place // 2, place - 1)):
                if 0 <= simpler < place:
                    yield {**fields, name: values[simpler]}


class _Given:
    """The fields of a case as attributes."""

    def __init__(self, fields: Fields):
        self.__dict__.update(fields)


def _with_precision(model: ModelProto, *, half: bool) -> ModelProto:
    """Return the model in float16 if requested: inputs and results stay float32."""
    if not half:
        return model
    graph = model.graph
    named = {i.name for i in graph.input}
    casts = []
    for node in graph.node:
        node.input[:] = [f"{name}_half" if name in named else name for name in node.input]
    for name in sorted(named):
        casts.append(helper.make_node("Cast", [name], [f"{name}_half"], to=TensorProto.FLOAT16))
    for weight in graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(weight).astype(np.float16)
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    nodes = [*casts, *graph.node]
    for result in graph.output:
        for node in nodes:
            node.output[:] = [
                f"{name}_half" if name == result.name else name for name in node.output
            ]
        half_name = f"{result.name}_half"
        cast = helper.make_node("Cast", [half_name], [result.name], to=TensorProto.FLOAT)
        nodes.append(cast)
    del graph.node[:]
    graph.node.extend(nodes)
    return model
