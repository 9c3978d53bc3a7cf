"""Support for quantised models: their float equivalent, and switches for each rounding."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, numpy_helper

from tcopt.quantization.gains import regions_of
from tcopt.quantization.layers import QuantizableLayer, carried, layers_of
from tcopt.quantization.onnx_graph import OnnxGraph, attributes_of, is_standard
from tcopt.quantization.parameters import Parameters
from tcopt.quantization.programs import with_outputs
from tcopt.quantization.realization import Switched, value_owner
from tcopt.quantization.sensitivity import SwitchedModel
from tcopt.support.errors import UnsupportedError

_INTEGER = (
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
    "ConvInteger", "MatMulInteger",
)  # fmt: skip
_CONTRIB = ("QLinear", "QGemm", "QAttention", "MatMulNBits", "DynamicQuantize", "MatMulInteger")


def integer_node(graph: OnnxGraph) -> NodeProto | None:
    """Return a node that shows that a model is already quantised; None if there is none."""
    for node in graph.nodes:
        contrib = node.domain == "com.microsoft" and node.op_type.startswith(_CONTRIB)
        if is_standard(node, *_INTEGER) or contrib:
            return node
    return None


@dataclass(frozen=True)
class _Pair:
    """A value that is quantised and dequantised.

    Attributes:
        value: the value before quantisation.
        real: the dequantised value, which its users read.
    """

    value: str
    real: str


def pairs_of(graph: OnnxGraph) -> list[_Pair]:
    """Return the values of a model that pass through QuantizeLinear and DequantizeLinear."""
    found: list[_Pair] = []
    for node in graph.nodes:
        maker = graph.producers.get(node.input[0]) if node.input else None
        if maker is None or not is_standard(node, "DequantizeLinear"):
            continue
        if is_standard(maker, "QuantizeLinear"):
            found.append(_Pair(maker.input[0], node.output[0]))
    return found


def in_floats(graph: OnnxGraph) -> OnnxGraph:
    """Return a model without quantisation, with dequantised weights.

    Raises:
        UnsupportedError: the model has other operators on integers.
    """
    made = graph.copy()
    for node in made.nodes:
        if is_standard(node, "DequantizeLinear"):
            _as_constant(made, node)
    made.refresh()
    real = {pair.real: pair.value for pair in pairs_of(made)}
    for node in made.graph.node:
        for place, name in enumerate(node.input):
            while name in real:
                name = real[name]
            node.input[place] = name
    for info in made.graph.output:
        if info.name in real:
            value = real[info.name]
            while value in real:
                value = real[value]
            made.graph.node.remove(made.producers[info.name])
            made.add_node("Identity", [value], f"{info.name}_real")
            made.graph.node[-1].output[0] = info.name
    made.refresh()
    _drop_dead(made)
    left = integer_node(made)
    if left is not None:
        raise UnsupportedError(
            f"the report supports models with QuantizeLinear and DequantizeLinear, this one has "
            f"{left.op_type}",
            where=left.name,
        )
    made.sort()
    return made


def _as_constant(graph: OnnxGraph, node: NodeProto) -> None:
    """Replace a dequantised constant by a float weight."""
    integers, scale = graph.array(node.input[0]), graph.array(node.input[1])
    if integers is None or scale is None or scale.ndim > 1:
        return
    zero = graph.array(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if zero is None:
        zero = np.zeros(scale.shape, integers.dtype)
    axis = attributes_of(node).get("axis", 1) if scale.size > 1 else None
    made = Parameters(scale.astype(np.float32), zero, None if axis is None else axis)
    if axis is None:
        made = Parameters(made.scale.reshape(()), made.zero.reshape(()))
    values = made.dequantize(integers)
    graph.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
    graph.graph.node.remove(node)


def _drop_dead(graph: OnnxGraph) -> None:
    """Remove unused quantisation nodes."""
    while True:
        dead = [
            node
            for node in graph.graph.node
            if is_standard(node, "QuantizeLinear", "DequantizeLinear")
            and not any(graph.users.get(name) or graph.is_output(name) for name in node.output)
        ]
        if not dead:
            return
        for node in dead:
            graph.graph.node.remove(node)
        graph.refresh()


def switched_pairs(
    graph: OnnxGraph, floats: OnnxGraph
) -> tuple[SwitchedModel, list[QuantizableLayer]]:
    """Add a switch for each quantised value of a model; also return its layers.

    Args:
        floats: the equivalent model without quantisation.
    """
    layers = layers_of(floats)
    made, gate = graph.copy(), Switched()
    for pair in pairs_of(made):
        users = list(made.users.get(pair.real, ()))
        real = gate.gated(made, value_owner(pair.value), pair.real, pair.value)
        for node in users:
            for place, name in enumerate(node.input):
                if name == pair.real:
                    node.input[place] = real
    gate.declare(made)
    made.refresh()
    made.sort()
    by_layer = _owners(graph, floats, layers)
    results = {layer.name: layer.result for layer in layers}
    own = set(graph.output_names)
    model = with_outputs(made, [name for name in results.values() if name not in own])

    def owners(chosen: Collection[str]) -> Collection[str]:
        return {owner for name in chosen for owner in by_layer.get(name, ())}

    return SwitchedModel(model, gate.places, owners, results, graph.output_names), layers


def _owners(
    graph: OnnxGraph, floats: OnnxGraph, layers: list[QuantizableLayer]
) -> dict[str, set[str]]:
    """Attribute quantised values to layers: their data, and values used only for them."""
    names = {layer.name for layer in layers}
    found: dict[str, set[str]] = {name: set() for name in names}
    values = {pair.value for pair in pairs_of(graph)}
    real = {pair.real: pair.value for pair in pairs_of(graph)}
    taken: set[str] = set()
    for layer in layers:
        for source in layer.sources:
            pending = [source]
            while pending:
                value = real.get(pending[0], pending[0])
                pending.pop(0)
                if value in values and value not in found[layer.name]:
                    found[layer.name].add(value)
                    taken.add(value)
                pending += [real.get(name, name) for name in carried(floats, value)]
    regions = regions_of(floats, names)
    for value in values - taken:
        maker = floats.producers.get(value)
        owner = regions.get(maker.name, "") if maker is not None else ""
        if owner:
            found[owner].add(value)
    return {name: set(map(value_owner, own)) for name, own in found.items()}
