"""Realises an annotation as QuantizeLinear and DequantizeLinear nodes of a model.

Annotated values are stored as integers, and their users read the dequantised values. Weights and
biases become integer constants of the model.

    y = Conv(x, w, b)
->
    y = Conv(Dequantize(Quantize(x)), Dequantize(w_int8), Dequantize(b_int32))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper

from tcopt.quantization.annotation import Annotation, annotate
from tcopt.quantization.layers import Behind, QuantizableLayer, layers_of
from tcopt.quantization.onnx_graph import OnnxGraph
from tcopt.quantization.parameters import Parameters
from tcopt.quantization.weights import (
    WeightSettings,
    bias_of,
    quantized_bias,
    weight_parameters,
)

Array = NDArray[Any]

SWITCHES = "tcopt_quantization_switches"
"""Name of the input of a model with switches."""


class Gate(ABC):
    """Decides what is used after each dequantisation."""

    @abstractmethod
    def gated(self, graph: OnnxGraph, owner: str, real: str, exact: str) -> str:
        """Return the name of the value to use.

        Args:
            owner: switch name of the value or layer that is quantised.
            real: the dequantised value.
            exact: the value before quantisation.
        """


class Open(Gate):
    """Gate that always uses the dequantised value."""

    def gated(self, graph: OnnxGraph, owner: str, real: str, exact: str) -> str:
        return real


@dataclass
class Switched(Gate):
    """Gate controlled by an input of the model, so one program can measure each quantisation.

    Attributes:
        places: indices of values and layers in that input.
    """

    places: dict[str, int] = field(default_factory=dict[str, int])

    def gated(self, graph: OnnxGraph, owner: str, real: str, exact: str) -> str:
        place = self.places.setdefault(owner, len(self.places))
        index = graph.add_constant(f"{owner}_switch_place", np.array(place, np.int64))
        chosen = graph.add_node("Gather", [SWITCHES, index], f"{owner}_switch", axis=0)
        return graph.add_node("Where", [chosen, real, exact], f"{owner}_switched")

    def declare(self, graph: OnnxGraph) -> None:
        """Add the input to the model."""
        info = helper.make_tensor_value_info(SWITCHES, TensorProto.BOOL, [max(len(self.places), 1)])
        graph.graph.input.append(info)


def value_owner(value: str) -> str:
    """Return the switch name of a value."""
    return f"value {value}"


def layer_owner(layer: str) -> str:
    """Return the switch name of a layer's weights."""
    return f"weights of {layer}"


@dataclass(frozen=True)
class Realization:
    """Parameters for realising an annotation.

    Attributes:
        activations: parameters of the values that set scales.
        weights: settings for weights.
        shifts: bias corrections by layer name; a layer without a bias gets one.
        behind: selects the values after layers that become integers, too; None for none.
    """

    activations: Mapping[str, Parameters]
    weights: WeightSettings = field(default_factory=WeightSettings)
    shifts: Mapping[str, Array] = field(default_factory=dict[str, Array])
    behind: Behind | None = None

    def realize(self, graph: OnnxGraph, annotation: Annotation, gate: Gate | None = None) -> None:
        """Insert quantisation into a model."""
        gate = gate or Open()
        users = {name: list(nodes) for name, nodes in graph.users.items()}
        for layer in annotation.layers:
            if layer.weight is not None:
                decides = annotation.values.get(layer.sources[0], "")
                self._weights(graph, layer, self.activations.get(decides), gate)
        for value, decides in annotation.values.items():
            real = self._value(graph, value, self.activations[decides], gate)
            for node in users.get(value, ()):
                _use(node, value, real)
        if isinstance(gate, Switched):
            gate.declare(graph)
        graph.refresh()
        graph.sort()

    def _value(self, graph: OnnxGraph, value: str, parameters: Parameters, gate: Gate) -> str:
        """Quantise and dequantise a value; return the name of the value to use."""
        scale = graph.add_constant(f"{value}_scale", parameters.scale)
        zero = graph.add_constant(f"{value}_zero_point", parameters.zero)
        integers = graph.add_node("QuantizeLinear", [value, scale, zero], f"{value}_QuantizeLinear")
        real = graph.add_node(
            "DequantizeLinear", [integers, scale, zero], f"{value}_DequantizeLinear"
        )
        return gate.gated(graph, value_owner(value), real, value)

    def _weights(
        self, graph: OnnxGraph, layer: QuantizableLayer, data: Parameters | None, gate: Gate
    ) -> None:
        """Quantise weights, and the bias at the scale of the accumulator."""
        assert layer.weight is not None
        name = layer.node.input[layer.weight.place]
        values = graph.array(name)
        assert values is not None
        made = weight_parameters(layer, values, self.weights)
        owner = layer_owner(layer.name)
        real = _dequantized(graph, name, made.quantize(values), made)
        layer.node.input[layer.weight.place] = gate.gated(graph, owner, real, name)
        self._bias(graph, layer, None if data is None or made.zero.any() else (data, made), gate)

    def _bias(
        self,
        graph: OnnxGraph,
        layer: QuantizableLayer,
        parts: tuple[Parameters, Parameters] | None,
        gate: Gate,
    ) -> None:
        """Quantise the bias at the scale of the accumulator, if it fits 32 bits.

        Args:
            parts: parameters of data and weights; the product of their scales is that of the bias.
        """
        exact, shift = bias_of(graph, layer), self.shifts.get(layer.name)
        if exact is None and shift is None:
            return
        node = layer.node
        if exact is None:
            assert shift is not None
            del node.input[2:]
            exact = np.zeros(shift.shape, np.float32)
            node.input.append(graph.add_constant(f"{layer.name}_bias", exact))
        name, bias = node.input[2], exact
        if shift is not None:
            bias = (exact - shift).astype(np.float32)
        found = None if parts is None else quantized_bias(bias, *parts)
        if found is not None:
            integers, scale = found
            zero = np.zeros(scale.shape, np.int32)
            parameters = Parameters(scale, zero, 0 if scale.ndim else None)
            real = _dequantized(graph, name, integers, parameters)
        elif shift is not None:
            real = graph.add_constant(f"{name}_corrected", bias)
        else:
            return
        node.input[2] = gate.gated(graph, layer_owner(layer.name), real, name)


def _dequantized(graph: OnnxGraph, name: str, integers: Array, made: Parameters) -> str:
    """Add a constant as dequantised integers; return the name of the dequantised value."""
    inputs = [
        graph.add_constant(f"{name}_quantized", integers),
        graph.add_constant(f"{name}_scale", made.scale),
        graph.add_constant(f"{name}_zero_point", made.zero),
    ]
    attributes = {} if made.axis is None else {"axis": made.axis}
    return graph.add_node("DequantizeLinear", inputs, f"{name}_DequantizeLinear", **attributes)


def _use(node: NodeProto, old: str, new: str) -> None:
    """Replace an operand of a node."""
    for place, name in enumerate(node.input):
        if name == old:
            node.input[place] = new


def quantized(
    graph: OnnxGraph, layers: Collection[str], realization: Realization, gate: Gate | None = None
) -> OnnxGraph:
    """Return a copy of a model with the named layers quantised."""
    made = graph.copy()
    known = layers_of(made, realization.behind)
    chosen = [layer for layer in known if layer.name in layers]
    realization.realize(made, annotate(made, chosen), gate)
    return made
