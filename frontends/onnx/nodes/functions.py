"""Function calls: functions of the model, and standard operators that ONNX defines by a function
body.

A call is replaced by the body, with formal inputs, outputs and attributes bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TypeProto
from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.types import shape_of, type_of
from tcopt.frontends.onnx.context.schemas import NodeSchema
from tcopt.frontends.onnx.model.errors import ExpansionError
from tcopt.frontends.onnx.model.limits import ModelLimits
from tcopt.frontends.onnx.model.loading import opset_versions
from tcopt.frontends.onnx.model.types import onnx_element_type
from tcopt.frontends.onnx.model.values import SequenceValue, Value, Values
from tcopt.support.errors import ImportModelError

FunctionKey = tuple[str, str, str]


@dataclass
class ExpansionBudget:
    """Bounds the expansion of functions and branches: small files can describe endless models."""

    limits: ModelLimits
    spent: int = 0

    def spend(self, count: int, depth: int, where: str) -> None:
        """Account for a body of `count` nodes.

        Raises:
            ExpansionError: there are too many nodes, or they are nested too deeply.
        """
        self.spent += count
        most, deepest = self.limits.nodes, self.limits.depth
        if self.spent > most:
            raise ExpansionError(
                f"functions and bodies expand to more than {most} nodes",
                where=where,
                hint=f"if this size is intended, raise the limit nodes={most}",
            )
        if depth > deepest:
            raise ExpansionError(
                f"functions and bodies are nested more than {deepest} deep, or call themselves",
                where=where,
                hint=f"if this depth is intended, raise the limit depth={deepest}",
            )


def check_expansion(
    nodes: Iterable[NodeProto], functions: Mapping[FunctionKey, FunctionProto], limits: ModelLimits
) -> None:
    """Raise the error that expanding `nodes` would cause, before doing any work.

    Raises:
        ImportModelError: functions are recursive, or expand to too many nodes.
    """
    sizes: dict[FunctionKey, int] = {}

    def size(function: FunctionProto, depth: int) -> int:
        key = (function.domain, function.name, function.overload)
        if key not in sizes:
            ExpansionBudget(limits).spend(0, depth, function.name)
            sizes[key] = total(function.node, depth + 1)
        return sizes[key]

    def total(body: Iterable[NodeProto], depth: int) -> int:
        count = 0
        for node in body:
            count += 1
            callee = functions.get((node.domain, node.op_type, node.overload))
            if callee is not None:
                count += size(callee, depth)
            count += sum(total(a.g.node, depth) for a in node.attribute if a.HasField("g"))
            ExpansionBudget(limits).spend(count, 0, node.name or node.op_type)
        return count

    # File size bounds the node count; only function expansion needs a limit.
    for node in nodes:
        callee = functions.get((node.domain, node.op_type, node.overload))
        if callee is not None:
            ExpansionBudget(limits).spend(size(callee, 0), 0, node.name or node.op_type)


def model_functions(model: ModelProto) -> dict[FunctionKey, FunctionProto]:
    """Return the model's functions by domain, name and overload.

    Raises:
        ImportModelError: two functions have the same key.
    """
    functions: dict[FunctionKey, FunctionProto] = {}
    for function in model.functions:
        key = (function.domain, function.name, function.overload)
        if key in functions:
            raise ImportModelError(f"function {function.name!r} is defined twice")
        functions[key] = function
    return functions


def standard_body(
    node: NodeProto, schema: NodeSchema, opset: int, operands: Values
) -> FunctionProto | None:
    """Return ONNX's definition of an operator as a function; None if there is none."""
    raw = schema.raw
    body: bytes | FunctionProto | None = None
    if raw.has_function:
        version = _nearest(raw.function_opset_versions, opset)
        body = raw.get_function_with_opset_version(version)
    elif raw.has_context_dependent_function:
        version = _nearest(raw.context_dependent_function_opset_versions, opset)
        types = [_type_proto(value).SerializeToString() for value in operands]
        body = raw.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), types
        )
    if not body:
        return None
    function = FunctionProto()
    if isinstance(body, FunctionProto):
        function.CopyFrom(body)
    else:
        function.ParseFromString(body)
    given = {attribute.name for attribute in function.attribute_proto}
    for name, attribute in raw.attributes.items():
        if attribute.default_value.name and name not in given:
            function.attribute_proto.append(attribute.default_value)
    return function


def _nearest(versions: Sequence[int], opset: int) -> int:
    """Return the newest version up to an opset, or the oldest; bodies declare their own opset."""
    return max((v for v in versions if v <= opset), default=min(versions))


def _type_proto(value: Value) -> TypeProto:
    if isinstance(value, SequenceValue):
        element = _type_proto(value.items[0]) if value.items else TypeProto()
        return onnx.helper.make_sequence_type_proto(element)
    if not isinstance(value, SSAValue):
        return TypeProto()
    dims = [n if isinstance(n, int) else str(n) for n in shape_of(value)]
    element = onnx_element_type(type_of(value).element_type)
    return onnx.helper.make_tensor_type_proto(element, dims)


def bound_nodes(function: FunctionProto, call: NodeProto) -> list[NodeProto]:
    """Return the body's nodes with references to function attributes replaced by their values.

    An attribute that is neither passed nor has a default is removed.
    """
    given = {attribute.name: attribute for attribute in function.attribute_proto}
    given.update({attribute.name: attribute for attribute in call.attribute})
    return [_bound(node, given) for node in function.node]


def _bound(node: NodeProto, given: Mapping[str, AttributeProto]) -> NodeProto:
    """Replace references to attributes in a node and its subgraphs."""
    if not _has_references(node):
        return node
    bound = NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            copy = bound.attribute.add()
            copy.CopyFrom(attribute)
            if attribute.type == AttributeProto.GRAPH:
                del copy.g.node[:]
                copy.g.node.extend(_bound(inner, given) for inner in attribute.g.node)
        elif attribute.ref_attr_name in given:
            copy = bound.attribute.add()
            copy.CopyFrom(given[attribute.ref_attr_name])
            copy.name = attribute.name
    return bound


def _has_references(node: NodeProto) -> bool:
    return any(
        attribute.ref_attr_name
        or (
            attribute.type == AttributeProto.GRAPH
            and any(_has_references(inner) for inner in attribute.g.node)
        )
        for attribute in node.attribute
    )


def function_opsets(function: FunctionProto, around: Mapping[str, int]) -> dict[str, int]:
    """Return the opset versions that a function's body is written for, by domain.

    Args:
        around: versions of the caller, used for domains that the function does not declare.
    """
    return {**around, **opset_versions(function.opset_import)}
