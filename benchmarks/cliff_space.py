"""What a space of cases is: named fields with their values, and what makes a model of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

MOST_WORK = 400_000_000
"""Products of a layer at most, so that a case takes milliseconds."""

Choice = int | float | str | bool
Fields = Mapping[str, Choice]


@dataclass(frozen=True)
class Space:
    """What cases of one kind may be.

    Attributes:
        fields: the values of each field, the simplest first.
        build: makes the model of some values; None where they are not a model.
    """

    fields: Mapping[str, tuple[Choice, ...]]
    build: Callable[[Any], ModelProto | None]

    def draw(self, rng: np.random.Generator) -> dict[str, Choice]:
        """Values that are a model."""
        while True:
            found = {n: values[rng.integers(len(values))] for n, values in self.fields.items()}
            if self.build(_Given(found)) is not None:
                return found

    def model(self, fields: Fields) -> ModelProto | None:
        """The model of some values, if they are one."""
        made = self.build(_Given(fields))
        return made if made is None else _with_precision(made, half=bool(fields.get("half")))

    def smaller(self, fields: Fields) -> Iterator[dict[str, Choice]]:
        """Cases with one field simpler: the simplest value first, then the one before."""
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
    """The model in float16, if that is wanted: inputs and results stay float32."""
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
