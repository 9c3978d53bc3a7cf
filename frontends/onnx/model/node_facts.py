"""Facts about a node for error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import NodeProto, SparseTensorProto
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.types import shape_of, type_of
from tcopt.frontends.onnx.model.initializers import Weight
from tcopt.frontends.onnx.model.types import onnx_element_type, onnx_type_name
from tcopt.frontends.onnx.model.values import OptionalValue, Scope, SequenceValue, Value
from tcopt.support.errors import ImportModelError, NodeFacts, TcoptError, UnsupportedError

STANDARD_DOMAINS = ("", "ai.onnx")
_INPUTS_LISTED = 8


def operator_name(node: NodeProto) -> str:
    """Return a node's operator name, preceded by its domain unless it is ONNX's own."""
    if node.domain in STANDARD_DOMAINS:
        return node.op_type
    return f"{node.domain}.{node.op_type}"


def add_facts(
    error: TcoptError,
    node: NodeProto,
    opset: int | None,
    scope: Scope,
    weights: Mapping[str, Weight],
) -> None:
    """Add the node's description and a general hint to an error, unless it has them already."""
    if error.node is not None:
        return
    inputs = [_described(name, scope, weights) for name in node.input[:_INPUTS_LISTED]]
    if len(node.input) > _INPUTS_LISTED:
        inputs.append("...")
    error.node = NodeFacts(operator_name(node), opset, tuple(inputs))
    error.hint = error.hint or general_advice(error)


def general_advice(error: TcoptError) -> str | None:
    """Return a hint for errors without a specific one."""
    if isinstance(error, ImportModelError):
        return "the model breaks ONNX's rules here: export it again, or repair the node"
    if isinstance(error, UnsupportedError):
        return "export it as other operators, or add it to the compiler (docs/adding_an_op.md)"
    return None


def _described(name: str, scope: Scope, weights: Mapping[str, Weight]) -> str:
    if not name:
        return "-"
    if name in scope:
        return _value_text(scope[name])
    if name in weights:
        weight = weights[name]
        if isinstance(weight, SparseTensorProto):
            return _tensor_text(onnx_type_name(weight.values.data_type), list(weight.dims))
        return _tensor_text(onnx_type_name(weight.data_type), list(weight.dims))
    return "?"


def _value_text(value: Value) -> str:
    match value:
        case SSAValue() if isinstance(value.type, TensorType):
            own = type_of(value)
            return _tensor_text(
                onnx_type_name(onnx_element_type(own.element_type)), shape_of(value)
            )
        case SequenceValue():
            return f"{len(value.items)} tensors"
        case OptionalValue():
            return "nothing"
        case None:
            return "-"
        case _:
            return "?"


def _tensor_text(element: str, dims: Sequence[int]) -> str:
    return f"{element}[{'x'.join(map(str, dims))}]"
