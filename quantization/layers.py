"""Which nodes are layers that integers can compute, and what hands their values on.

A layer is a product that sums: its data and weights become 8-bit integers. A carrier gives elements
that it was given, so that these can be integers before it. Both are rules by operator; another one
is another function with `@layer_rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from onnx import NodeProto, TensorProto

from tcopt.quantization.functions import Function, functions_of
from tcopt.quantization.onnx_graph import OnnxGraph, attributes_of, is_standard, labelled
from tcopt.support.registration import Registry


@dataclass(frozen=True)
class Weight:
    """A constant operand of a layer.

    Attributes:
        place: which input it is.
        axis: along which channels of the result lie, each with a scale of its own; None where one
            scale has to do.
        terms: axes that are summed over, beside channels of the data.
    """

    place: int
    axis: int | None


@dataclass(frozen=True)
class Layer:
    """A node that integers can compute.

    Attributes:
        name: of the node, or what it is called instead.
        data: which inputs are activations.
        bias: which input is added to the result for each channel, if it is a constant.
        channel: the axis of the data whose elements meet different weights.
        beside: values behind it that become integers with it.
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
        """The value that it computes."""
        return self.node.output[0]

    @property
    def sources(self) -> list[str]:
        """The values that its data are."""
        return [self.node.input[place] for place in self.data]

    @property
    def values(self) -> list[str]:
        """The values that become integers with it."""
        return [*self.sources, *self.beside]


Operands = tuple[tuple[int, ...], Weight | None, int | None, int]
"""As a rule gives them: `data`, `weight`, `bias` and `channel` of a `Layer`."""
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
    """Which values behind layers become integers with them.

    Attributes:
        functions: arguments and results of functions of each element, which are tables then.
        sums: what is added to another computed value, as behind a residual block's last layer.
    """

    functions: bool = True
    sums: bool = True


def layers_of(graph: OnnxGraph, behind: Behind | None = None) -> list[Layer]:
    """The layers of a model, in order; by default without what is behind them."""
    found: list[Layer] = []
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
        # All operands are of one type; that of what other domains compute may not be known.
        typed = data if weight is None else (weight.place,)
        if any(graph.is_float(node.input[place]) for place in typed):
            layer = Layer(name, node, data, weight, bias, channel)
            beside = () if behind is None else _beside(graph, layer, behind, known)
            found.append(replace(layer, beside=beside))
    return found


def element_types(graph: OnnxGraph) -> list[str]:
    """The names of the element types of all nodes that could be layers, each once."""
    found = {
        graph.element_type(node.input[0])
        for node in graph.nodes
        if node.op_type in RULES and is_standard(node, node.op_type)
    }
    return sorted(TensorProto.DataType.Name(number).lower() for number in found if number)


def _beside(
    graph: OnnxGraph, layer: Layer, behind: Behind, functions: Mapping[str, Function]
) -> tuple[str, ...]:
    value = _with_bias(graph, layer.result)
    if value in functions:
        return value, functions[value].result
    if not behind.sums or graph.is_output(value):
        return ()
    added = _only_addition(graph, value)
    return () if added is None or graph.constants.keys() & set(added.input) else (value,)


def _with_bias(graph: OnnxGraph, result: str) -> str:
    """The result of a layer, or what the addition of a constant makes of it."""
    added = _only_addition(graph, result)
    if added is None or not graph.constants.keys() & set(added.input):
        return result
    return added.output[0]


def _only_addition(graph: OnnxGraph, value: str) -> NodeProto | None:
    """The addition that is all that uses a value."""
    users = graph.users.get(value, [])
    return users[0] if len(users) == 1 and is_standard(users[0], "Add") else None


def _given(node: NodeProto, place: int) -> str:
    return node.input[place] if place < len(node.input) else ""


def _bias(graph: OnnxGraph, node: NodeProto) -> int | None:
    """The third operand, if it is a vector that is known."""
    name = _given(node, 2)
    return 2 if name in graph.constants and graph.rank(name) == 1 else None


@layer_rule("Conv")
def conv(graph: OnnxGraph, node: NodeProto) -> Operands | None:
    """Weights with the channels of the result first."""
    if node.input[1] not in graph.constants:
        return None
    return (0,), Weight(1, 0), _bias(graph, node), 1


@layer_rule("ConvTranspose")
def conv_transpose(graph: OnnxGraph, node: NodeProto) -> Operands | None:
    """Weights with the channels of the data first, and of the result second."""
    if node.input[1] not in graph.constants:
        return None
    axis = 1 if attributes_of(node).get("group", 1) == 1 else None
    return (0,), Weight(1, axis), _bias(graph, node), 1


@layer_rule("Gemm")
def gemm(graph: OnnxGraph, node: NodeProto) -> Operands | None:
    """A matrix product with a bias, if neither is scaled."""
    attributes = attributes_of(node)
    scaled = any(attributes.get(name, 1.0) != 1.0 for name in ("alpha", "beta"))
    if scaled or attributes.get("transA", 0) or node.input[1] not in graph.constants:
        return None
    axis = 0 if attributes.get("transB", 0) else 1
    return (0,), Weight(1, axis), _bias(graph, node), 1


@layer_rule("MatMul")
def matmul(graph: OnnxGraph, node: NodeProto) -> Operands | None:
    """Of data and weights on either side, or of data and data."""
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
"""By operator, which of a node's inputs its result has elements of."""


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
    """The values whose elements a value has, where a carrier computes it; else none."""
    node = graph.producers.get(value)
    if node is None or node.op_type not in CARRIERS or not is_standard(node, node.op_type):
        return []
    if len([name for name in node.output if name]) != 1:
        return []
    return [node.input[place] for place in CARRIERS[node.op_type](graph, node)]
