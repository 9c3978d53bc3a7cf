"""Validation of nodes by ONNX's operator schemas: number of operands, attributes and types.

The schemas are part of the onnx package, so all operators in all versions are validated in the same
way, and handlers only see nodes of the correct form. The schemas also have the default values of
attributes that `NodeContext` uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import onnx
from onnx import AttributeProto, NodeProto
from onnx.defs import OpSchema
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.frontends.onnx.model.types import TEXT_TENSOR, schema_type_name
from tcopt.support.errors import ImportModelError, UnsupportedError
from tcopt.support.suggestions import suggest

AttributeValue = int | float | bytes | list[int] | list[float] | list[bytes] | onnx.TensorProto


@dataclass(frozen=True)
class _Parameter:
    name: str
    types: frozenset[str]
    type_variable: str


@dataclass(frozen=True)
class NodeSchema:
    """The schema of an operator in one version."""

    op_type: str
    inputs: tuple[_Parameter, ...]
    variadic: bool
    least_inputs: int
    most_inputs: int
    least_outputs: int
    most_outputs: int
    attribute_types: dict[str, int]
    required_attributes: tuple[str, ...]
    defaults: dict[str, AttributeValue]
    # The type stubs of onnx lack the methods of schemas.
    raw: Any
    outputs: tuple[tuple[str, str], ...] = ()
    """Type variable of each result, and its type if there is only one."""

    @property
    def has_body(self) -> bool:
        """Whether ONNX defines the operator as a function of other operators."""
        return self.raw.has_function or self.raw.has_context_dependent_function

    def check_form(self, node: NodeProto, where: str) -> None:
        """Check numbers of operands and results, and attributes.

        Raises:
            ImportModelError: an attribute is missing, unknown or has a wrong type.
        """
        self._check_count("input", node.input, self.least_inputs, self.most_inputs, where)
        self._check_count("output", node.output, self.least_outputs, self.most_outputs, where)
        seen: set[str] = set()
        for attribute in node.attribute:
            name = attribute.name
            expected = self.attribute_types.get(name)
            if expected is None:
                raise ImportModelError(
                    f"{self.op_type} has no attribute {name!r} at this opset",
                    where=where,
                    hint=f"it has {', '.join(sorted(self.attribute_types)) or 'none'}",
                )
            if name in seen:
                raise ImportModelError(f"attribute {name!r} is given twice", where=where)
            if expected != attribute.type:
                raise ImportModelError(
                    f"attribute {name!r} of {self.op_type} should be "
                    f"{_attribute_type_name(expected)}, not {_attribute_type_name(attribute.type)}",
                    where=where,
                )
            seen.add(name)
        for name in self.required_attributes:
            if name not in seen:
                raise ImportModelError(
                    f"{self.op_type} lacks its required attribute {name!r}", where=where
                )

    def _check_count(
        self, kind: str, names: Sequence[str], least: int, most: int, where: str
    ) -> None:
        if not least <= len(names) <= most:
            allowed = str(least) if least == most else f"{least} to {most}"
            if most > 1 << 20:
                allowed = f"at least {least}"
            raise ImportModelError(
                f"{self.op_type} takes {allowed} {kind}s, but has {len(names)}", where=where
            )

    def check_types(
        self, types: Sequence[Attribute | None], where: str, texts: Sequence[bool] = ()
    ) -> Sequence[bool]:
        """Check the element types of operands; None for an omitted operand.

        Args:
            texts: whether each operand is a string tensor.
        Returns:
            Whether each result is a string tensor according to the schema; the last entry may stand
            for any number of results.

        Raises:
            ImportModelError: a type is not supported by the operator, or types that must be equal
                differ.
        """
        bound: dict[str, str] = {}
        for index, operand in enumerate(types):
            if operand is None or not isa(operand, TensorType):
                continue
            parameter = self.inputs[min(index, len(self.inputs) - 1)]
            is_text = index < len(texts) and texts[index]
            name = TEXT_TENSOR if is_text else schema_type_name(operand.element_type)
            if name not in parameter.types:
                raise ImportModelError(
                    f"input {index} ({parameter.name}) of {self.op_type} cannot be {name}",
                    where=where,
                    hint=f"it takes {_some(parameter.types)}",
                )
            variable = parameter.type_variable
            if bound.setdefault(variable, name) != name:
                raise ImportModelError(
                    f"inputs of {self.op_type} should have one type, not {bound[variable]} "
                    f"and {name}",
                    where=where,
                    hint="insert a Cast",
                )
        return [bound.get(variable, alone) == TEXT_TENSOR for variable, alone in self.outputs]


def _some(types: frozenset[str]) -> str:
    plain = sorted(t for t in types if t.startswith("tensor("))
    return ", ".join(plain[:8]) + (", ..." if len(plain) > 8 else "")


def _attribute_type_name(number: int) -> str:
    names = {value: name for name, value in AttributeProto.AttributeType.items()}
    return names.get(number, f"type {number}").lower()


OLDEST_FORMS = 6
"""First opset in which all operators have a supported form."""


def check_form_of(op_type: str, opset: int) -> None:
    """Check that an operator in an old opset has the form of the oldest supported opset.

    Raises:
        UnsupportedError: it has another form.
    """
    if opset >= OLDEST_FORMS or _version(op_type, opset) in (None, _version(op_type, OLDEST_FORMS)):
        return
    raise UnsupportedError(
        f"{op_type} has another form in opset {opset}, which is not supported",
        hint="convert the model with onnx.version_converter",
    )


@lru_cache(maxsize=1024)
def _version(op_type: str, opset: int) -> int | None:
    """Return the opset version that introduced an operator's form; None if it does not exist."""
    try:
        return onnx.defs.get_schema(op_type, opset, "").since_version
    except onnx.defs.SchemaError:
        return None


@lru_cache(maxsize=1024)
def find_schema(op_type: str, opset: int, domain: str = "") -> NodeSchema | None:
    """Return the schema of an operator at an opset version; None if ONNX has none.

    Args:
        domain: the domain of the operator; by default ONNX's own.
    """
    try:
        schema: Any = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    variadic = bool(schema.inputs) and (
        schema.inputs[-1].option == OpSchema.FormalParameterOption.Variadic
    )
    inputs: list[_Parameter] = []
    for position, formal in enumerate(schema.inputs):
        # The types of a heterogeneous variadic input are independent, so each gets its own
        # variable.
        variable = formal.type_str if formal.is_homogeneous else f"{formal.type_str}#{position}"
        inputs.append(_Parameter(formal.name, frozenset(formal.types), variable))
    attributes = schema.attributes
    return NodeSchema(
        op_type,
        tuple(inputs),
        variadic,
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
        {name: int(a.type.value) for name, a in attributes.items()},
        tuple(name for name, a in attributes.items() if a.required),
        {
            name: onnx.helper.get_attribute_value(a.default_value)
            for name, a in attributes.items()
            if a.default_value.name
        },
        schema,
        tuple((o.type_str, "".join(o.types) if len(o.types) == 1 else "") for o in schema.outputs),
    )


@lru_cache(maxsize=1024)
def opset_advice(op_type: str, opset: int) -> str:
    """Return a hint about an operator that has no schema at `opset`."""
    versions: list[Any] = [
        schema
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == op_type and schema.domain == ""
    ]
    added = min((schema.since_version for schema in versions), default=None)
    if added is None:
        names = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
        return suggest(op_type, names) or "check its name, or export standard operators"
    if added > opset:
        return f"ONNX has it since opset {added}: export the model for that or a newer one"
    return f"ONNX dropped it before opset {opset}: convert the model with onnx.version_converter"
