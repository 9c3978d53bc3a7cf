"""Layers that can be computed on integers, and carriers that pass their values on.

A layer is a contraction whose data and weights become 8-bit integers. A carrier passes elements on
unchanged, so they can become integers before it. Both are defined by a rule per operator; use
`@layer_rule` to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from onnx import NodeProto, TensorProto

from tcopt.quantization.functions import Function, functions_of
from tcopt.quantization.onnx_graph import OnnxGraph, attributes_of, is_standard, labelled
from tcopt.support.registries.registration import Registry


@dataclass(frozen=True)
class Weight:
    """Constant operand of a layer.

    Attributes:
        place: index of the input.
        axis: axis of the result channels, each of which has its own scale; None if a single scale
            must be used.
    """

    place: int
    axis: int | None


@dataclass(frozen=True)
class QuantizableLayer:
    """A node that can be computed on integers.

    Attributes:
        name: name of the node, or a substitute for it.
        data: indices of the inputs that are activations.
        bias: index of the constant input that is added to each result channel.
        channel: axis of the data along which the weights differ.
        beside: values after the layer that become integers together with it.
    """

    name: str
    node: NodeProto
    data: tuple[int, ...]
    weight: Weight | None = None
    bias: int | None = None
    channel: int = 1
    beside: tuple[str, ...] = ()

    @property
    def operator(self) -> str:
        return self.node.op_type

    @property
    def result(self) -> str:
        """Name of the value that the layer computes."""
        return self.node.output[0]

    @property
    def sources(self) -> list[str]:
        """Names of the layer's data inputs."""
        return [self.node.input[place] for place in self.data]

    @property
    def values(self) -> list[str]:
        """Names of the values that become integers together with the layer."""
        return [*self.sources, *self.beside]


Operands = tuple[tuple[int, ...], Weight | None, int | None, int]
"""Result of a rule: `data`, `weight`, `bias` and `channel` of a `QuantizableLayer`."""
Rule = Callable[[OnnxGraph, NodeProto], Operands | None]
RULES: Registry[str, Rule] = Registry("layer rule")


def layer_rule(operator: str) -> Callable[[Rule], Rule]:
    """Register the rule of an operator."""

    def register(rule: Rule) -> Rule:
        RULES[operator] = rule
        return rule

    return register


@dataclass(frozen=True)
class Behind:
    """Selects the values after layers that become integers together with them.

    Attributes:
        functions: arguments and results of elementwise functions, which become tables.
        sums: addends of another computed value, as after the last layer of a residual block.
    """

    functions: bool = True
    sums: bool = True


def layers_of(graph: OnnxGraph, behind: Behind | None = None) -> list[QuantizableLayer]:
    """Return the layers of a model in order; `behind` selects values after them to include."""
    found: list[QuantizableLayer] = []
    known: Mapping[str, Function] = {}
    if behind is not None and behind.functions:
        known = functions_of(graph)
    for name, node in labelled(graph):
        rule = RULES.get(node.op_type)
        if rule is None or not is_standard(node, node.op_type):
            continue
        operands = rule(graph, node)
        if operands is None:
            continue
        data, weight, bias, channel = operands
        # All operands have the same type, which may be unknown for results of operators of other
        # domains.
        typed = data if weight is None else (weight.place,)
        if any(graph.is_float(node.input[place]) for place in typed):
            layer = QuantizableLayer(name, node, data, weight, bias, channel)
            beside = () if behind is None else _beside(graph, layer, behind, known)
            found.append(replace(layer, beside=beside))
    return found


def element_types(graph: OnnxGraph) -> list[str]:
    """Return the names of the element types of all nodes that match a layer operator."""
    found = {
        graph.element_type(node.input[0])
        for node in graph.nodes
        if node.op_type in RULES and is_standard(node, node.op_type)
    }
    return sorted(TensorProto.DataType.Name(number).lower() for number in found if number)


def _beside(
    graph: OnnxGraph, layer: QuantizableLayer, behind: Behind, functions: Mapping[str, Function]
) -> tuple[str, ...]:
    value = _with_bias(graph, layer.result)
    if value in functions:
        return value, functions[value].result
    if not behind.sums or graph.is_output(value):
        return ()
    added = _only_addition(graph, value)
    return () if added is None or graph.constants.keys() & set(added.input) else (value,)


def _with_bias(graph: OnnxGraph, result: str) -> str:
    """Return the result of a layer, after the addition of a constant if there is one."""
    added = _only_addition(graph, result)
    if added is None or not graph.constants.keys() & set(added.input):
        return result
    return added.output[0]


def _only_addition(graph: OnnxGraph, value: str) -> NodeProto | None:
    """Return the addition that is the only user of a value; None if there is none."""
    users = graph.users.get(value, [])
    return users[0] if len(users) == 1 and is_standard(users[0], "Add") else None


def _given(node: NodeProto, place: int) -> str:
    return node.input[place] if place < len(node.input) else ""


def _bias(graph: OnnxGraph, node: NodeProto) -> int | None:
    """Return the index of the bias, the third operand, if it is a constant vector."""
    name = _given(node, 2)
    return 2 if name in graph.constants and graph.rank(name) == 1 else None


@layer_rule("Conv")
def conv(graph: OnnxGraph, node: NodeProto) -> Operands | None:
    """Rule for convolutions: result channels are the first axis of the weights."""
    if node.input[1] not in graph.constants:
        return None
    return (0,), Weight(1, 0), _bias(graph, node), 1


@layer_rule("ConvTranspose")
def conv_transpose(graph: OnnxGraph, node: NodeProto) -> Operands | None:
    """Rule for transposed convolutions, whose weights have data channels first."""
    if node.input[1] not in graph.constants:
        return None
    axis = 1 if attributes_of(node).get("group", 1) == 1 else None
    return (0,), Weight(1, axis), _bias(graph, node), 1


@layer_rule("Gemm")
def gemm(graph: OnnxGraph, node: NodeProto) -> Operands | None:
    """Rule for matrix products with a bias, unless either is scaled."""
    attributes = attributes_of(node)
    scaled = any(attributes.get(name, 1.0) != 1.0 for name in ("alpha", "beta"))
    if scaled or attributes.get("transA", 0) or node.input[1] not in graph.constants:
        return None
    axis = 0 if attributes.get("transB", 0) else 1
    return (0,), Weight(1, axis), _bias(graph, node), 1


@layer_rule("MatMul")
def matmul(graph: OnnxGraph, node: NodeProto) -> Operands | None:
    """Rule for products of data with weights on either side, or of data with data."""
    known = [name in graph.constants for name in node.input]
    if all(known):
        return None
    if known[1]:
        axis = 1 if graph.rank(node.input[1]) == 2 else None
        return (0,), Weight(1, axis), None, -1
    if known[0]:
        return (1,), Weight(0, None), None, -2
    return (0, 1), None, None, -1


# Carriers

Carried = Callable[[OnnxGraph, NodeProto], tuple[int, ...]]
CARRIERS: Registry[str, Carried] = Registry("carrier of quantised values")
"""Indices of the inputs whose elements a node's result has, by operator."""


def _first(graph: OnnxGraph, node: NodeProto) -> tuple[int, ...]:
    return (0,)


def _all(graph: OnnxGraph, node: NodeProto) -> tuple[int, ...]:
    return tuple(range(len(node.input)))


def _nearest(graph: OnnxGraph, node: NodeProto) -> tuple[int, ...]:
    attributes = attributes_of(node)
    own = attributes.get("coordinate_transformation_mode", b"") != b"tf_crop_and_resize"
    return (0,) if own and attributes.get("mode", b"nearest") == b"nearest" else ()


for _operator in (
    "MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Identity",
    "DepthToSpace", "SpaceToDepth", "Expand", "Tile",
):  # fmt: skip
    CARRIERS[_operator] = _first
CARRIERS["Concat"] = _all
CARRIERS["Resize"] = _nearest


def carried(graph: OnnxGraph, value: str) -> list[str]:
    """Return the values whose elements a carrier copies to a value; empty for other operators."""
    node = graph.producers.get(value)
    if node is None or node.op_type not in CARRIERS or not is_standard(node, node.op_type):
        return []
    if len([name for name in node.output if name]) != 1:
        return []
    return [node.input[place] for place in CARRIERS[node.op_type](graph, node)]
