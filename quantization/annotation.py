"""Which values of a model become integers, and which of them share a scale."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tcopt.quantization.layers import Layer, carried
from tcopt.quantization.onnx_graph import OnnxGraph


@dataclass(frozen=True)
class Annotation:
    """What is to be quantised.

    Attributes:
        layers: those that integers compute.
        values: for each value that is stored as integers, the one whose range decides its scale.
    """

    layers: Sequence[Layer]
    values: Mapping[str, str]


def annotate(graph: OnnxGraph, layers: Sequence[Layer]) -> Annotation:
    """Annotate the data of layers, what carriers bring there, and what is beside layers.

    Elements that a carrier only hands on are quantised in front of it, with the same scale, so
    that what is moved and stored is bytes. A value that others need stays where it is.
    """
    wanted = list(dict.fromkeys(name for layer in layers for name in layer.sources))
    wanted = [name for name in wanted if name not in graph.constants]
    # Values in order, so that what a carrier is given has its scale before what it gives.
    places = {name: place for place, name in enumerate(graph.producers)}
    wanted.sort(key=lambda name: places.get(name, -1))
    values: dict[str, str] = {}
    for name in wanted:
        values[name] = _shared(graph, name, values)
    for name in reversed(wanted):
        _carry_back(graph, name, values, set(wanted))
    # Where a carrier gave them no scale, they have their own.
    for layer in layers:
        for name in layer.beside:
            values.setdefault(name, name)
    return Annotation(tuple(layers), values)


def _shared(graph: OnnxGraph, name: str, values: Mapping[str, str]) -> str:
    """What decides the scale of a value: itself, or what a carrier has it from."""
    sources = carried(graph, name)
    if len(sources) == 1 and sources[0] in values:
        return values[sources[0]]
    return name


def _carry_back(
    graph: OnnxGraph, name: str, values: dict[str, str], wanted: Collection[str]
) -> None:
    """Quantise what a carrier is given with the scale of what it gives, where nothing else needs
    that."""
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
