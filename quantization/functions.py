"""Functions of each element behind layers: SiLU, GELU, tanh and others.

Where a function reads and gives integers of 8 bits it is a table of 256 numbers, which takes less
time than what it computes: `y = x * sigmoid(x)` becomes `y = table[x]`. So its argument and its
result may be quantised with the layer in front of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from onnx import NodeProto

from tcopt.quantization.onnx_graph import OnnxGraph, is_standard
from tcopt.support.registration import Registry

PARTS: Registry[str, bool] = Registry("part of a function of each element")
"""By operator, whether it takes so long that a table is faster. Parts have one result; operands
beside the argument are constants of one element."""

for _operator in ("Add", "Sub", "Mul", "Div", "Neg", "Min", "Max", "Clip", "Relu", "HardSigmoid"):
    PARTS[_operator] = False
for _operator in (
    "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Pow", "Sqrt", "Softplus", "Softsign", "Elu", "Selu",
    "Celu", "Gelu", "Mish", "Swish",
):  # fmt: skip
    PARTS[_operator] = True

_MOST_PARTS = 16


@dataclass(frozen=True)
class Function:
    """Nodes that compute a function of each element of one value.

    Attributes:
        argument: the value that it is a function of.
        result: what it gives.
    """

    argument: str
    result: str


def functions_of(graph: OnnxGraph) -> Mapping[str, Function]:
    """The functions of a model by their arguments, which are used by nothing else.

    Those that end in an output of the model are left out: nothing behind them reads integers.
    """
    found: dict[str, Function] = {}
    order = {name: place for place, name in enumerate(graph.producers)}
    for node in graph.nodes:
        if not _is_part(node) or graph.is_output(node.output[0]):
            continue
        users = graph.users.get(node.output[0], [])
        if users and all(_is_part(user) and len(_operands(graph, user)) == 1 for user in users):
            continue  # The function goes on.
        argument = _argument(graph, node, order)
        if argument is not None:
            found[argument] = Function(argument, node.output[0])
    return found


def _is_part(node: NodeProto) -> bool:
    return node.op_type in PARTS and is_standard(node, node.op_type) and len(node.output) == 1


def _operands(graph: OnnxGraph, node: NodeProto) -> set[str]:
    """The operands of a part that are not constants of one element."""
    found: set[str] = set()
    for name in filter(None, node.input):
        value = graph.constants.get(name)
        if value is None or prod(value.dims) != 1:
            found.add(name)
    return found


def _argument(graph: OnnxGraph, last: NodeProto, order: Mapping[str, int]) -> str | None:
    """The value that a node, with those in front of it, computes a function of.

    The function is the least one that has a part worth a table.
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
    """Whether a value is computed for these nodes alone."""
    outputs = {part.output[0] for part in parts}
    users = graph.users.get(value, [])
    return not graph.is_output(value) and all(outputs.intersection(user.output) for user in users)
