"""Elementwise functions after layers: SiLU, GELU, tanh and others.

A function from 8-bit integers to 8-bit integers is a table of 256 entries, which is faster than
computing it: `y = x * sigmoid(x)` becomes `y = table[x]`. It therefore pays to quantise both its
argument and its result together with the layer before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from onnx import NodeProto

from tcopt.quantization.onnx_graph import OnnxGraph, is_standard
from tcopt.support.registries.registration import Registry

_CHEAP = ("Add", "Sub", "Mul", "Div", "Neg", "Min", "Max", "Clip", "Relu", "HardSigmoid")
_EXPENSIVE = (
    "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Pow", "Sqrt", "Softplus", "Softsign", "Elu", "Selu",
    "Celu", "Gelu", "Mish", "Swish",
)  # fmt: skip

PARTS: Registry[str, bool] = Registry(
    "part of a function of each element",
    lambda: {**dict.fromkeys(_CHEAP, False), **dict.fromkeys(_EXPENSIVE, True)},
)
"""Operators of elementwise functions, by whether they are expensive enough for a table to be
faster. All have one result; their operands other than the argument are one-element constants.
"""

_MOST_PARTS = 16


@dataclass(frozen=True)
class Function:
    """Nodes that compute an elementwise function of one value.

    Attributes:
        argument: the argument of the function.
        result: the result of the function.
    """

    argument: str
    result: str


def functions_of(graph: OnnxGraph) -> Mapping[str, Function]:
    """Return the functions of a model by argument; arguments have no other users.

    Functions whose result is an output of the model are skipped, as no one reads it as integers.
    """
    found: dict[str, Function] = {}
    order = {name: place for place, name in enumerate(graph.producers)}
    for node in graph.nodes:
        if not _is_part(node) or graph.is_output(node.output[0]):
            continue
        users = graph.users.get(node.output[0], [])
        if users and all(_is_part(user) and len(_operands(graph, user)) == 1 for user in users):
            continue  # The function continues with its users.
        argument = _argument(graph, node, order)
        if argument is not None:
            found[argument] = Function(argument, node.output[0])
    return found


def _is_part(node: NodeProto) -> bool:
    return node.op_type in PARTS and is_standard(node, node.op_type) and len(node.output) == 1


def _operands(graph: OnnxGraph, node: NodeProto) -> set[str]:
    """Return the operands of a part, except one-element constants."""
    found: set[str] = set()
    for name in filter(None, node.input):
        value = graph.constants.get(name)
        if value is None or prod(value.dims) != 1:
            found.add(name)
    return found


def _argument(graph: OnnxGraph, last: NodeProto, order: Mapping[str, int]) -> str | None:
    """Return the argument of the elementwise function that ends at a node.

    This is the smallest function that contains a part expensive enough for a table.
    """
    parts, operands = [last], _operands(graph, last)
    while len(parts) <= _MOST_PARTS and operands:
        latest = max(operands, key=lambda name: order.get(name, -1))
        if not _serves(graph, latest, parts):
            return None
        if len(operands) == 1 and any(PARTS[part.op_type] for part in parts):
            return latest
        node = graph.producers.get(latest)
        if node is None or not _is_part(node):
            return None
        parts.append(node)
        operands = (operands - {latest}) | _operands(graph, node)
    return None


def _serves(graph: OnnxGraph, value: str, parts: list[NodeProto]) -> bool:
    """Whether a value is used by these nodes only."""
    outputs = {part.output[0] for part in parts}
    users = graph.users.get(value, [])
    return not graph.is_output(value) and all(outputs.intersection(user.output) for user in users)
