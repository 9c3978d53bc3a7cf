"""Selects the values of a model that become integers, and those that share a scale."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tcopt.quantization.layers import QuantizableLayer, carried
from tcopt.quantization.onnx_graph import OnnxGraph


@dataclass(frozen=True)
class Annotation:
    """Selection of what to quantise.

    Attributes:
        layers: layers computed on integers.
        values: maps each value that is stored as integers to the value whose range sets its scale.
    """

    layers: Sequence[QuantizableLayer]
    values: Mapping[str, str]


def annotate(graph: OnnxGraph, layers: Sequence[QuantizableLayer]) -> Annotation:
    """Annotate the data of layers, values passed on by carriers, and values after layers.

    Elements that a carrier only passes on are quantised before it with the same scale, so that it
    moves and stores bytes. Values with other users are not quantised earlier.
    """
    wanted = list(dict.fromkeys(name for layer in layers for name in layer.sources))
    wanted = [name for name in wanted if name not in graph.constants]
    # In topological order, so that the input of a carrier has its scale before the output.
    places = {name: place for place, name in enumerate(graph.producers)}
    wanted.sort(key=lambda name: places.get(name, -1))
    values: dict[str, str] = {}
    for name in wanted:
        values[name] = _shared(graph, name, values)
    for name in reversed(wanted):
        _carry_back(graph, name, values, set(wanted))
    # Values whose scale no carrier determines have their own.
    for layer in layers:
        for name in layer.beside:
            values.setdefault(name, name)
    return Annotation(tuple(layers), values)


def _shared(graph: OnnxGraph, name: str, values: Mapping[str, str]) -> str:
    """Return the value that sets the scale of a value: itself, or that of its carrier's input."""
    sources = carried(graph, name)
    if len(sources) == 1 and sources[0] in values:
        return values[sources[0]]
    return name


def _carry_back(
    graph: OnnxGraph, name: str, values: dict[str, str], wanted: Collection[str]
) -> None:
    """Quantise the inputs of carriers with the scales of their outputs, unless the inputs have
    other users.
    """
    pending = [name]
    while pending:
        current = pending.pop()
        sources = carried(graph, current)
        free = all(
            len(graph.users.get(source, ())) == 1
            and not graph.is_output(source)
            and source not in wanted
            and source not in graph.constants
            for source in sources
        )
        if not sources or not free:
            continue
        for source in sources:
            if source not in values:
                values[source] = values[current]
                pending.append(source)
