"""Schemas of operators outside ONNX's own domain: onnxruntime's and QONNX's, and those registered
by third-party code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from tcopt.frontends.onnx.context.schemas import NodeSchema
from tcopt.frontends.onnx.nodes.contrib_schema import (
    FLOAT,
    FLOATS,
    INT,
    INTS,
    REQUIRED,
    STRING,
    STRINGS,
    ContribSchema,
    contrib_schema,
)
from tcopt.frontends.onnx.nodes.microsoft import find_microsoft_schema
from tcopt.frontends.onnx.nodes.qonnx import find_qonnx_schema
from tcopt.support.errors import InputError
from tcopt.support.registries.registration import Registry

SCHEMAS: Registry[str, ContribSchema] = Registry("schema of operator")
"""Registered schemas of operators of other domains, by domain and name."""

_KINDS: dict[Any, tuple[int, int]] = {
    int: (INT, INTS),
    float: (FLOAT, FLOATS),
    str: (STRING, STRINGS),
}


def register_schema(
    name: str,
    *,
    inputs: tuple[int, int] = (1, 1),
    results: tuple[int, int] = (1, 1),
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Register the schema of an operator of another domain.

    Args:
        name: the domain and the operator, such as `my.company.Gate`.
        inputs, results: minimum and maximum number.
        attributes: default values by name: a number, a string or a list of these. For a required
            attribute, its type, such as `float` or `list[float]`.
    Raises:
        InputError: the operator already has a schema, or the type of a default is not supported.
    """
    known = {attribute: _attribute(name, value) for attribute, value in (attributes or {}).items()}
    schema = contrib_schema(name.rpartition(".")[2], *inputs, known, results)
    SCHEMAS.add(name, schema)


def _attribute(name: str, value: Any) -> tuple[int, Any]:
    """Return the type and the default value of an attribute."""
    inner = get_args(value)
    if inner or isinstance(value, type):
        items, default = [], REQUIRED
        of, many = (inner or (value,))[0], bool(inner)
    else:
        many = isinstance(value, list)
        items: list[Any] = [*value] if many else [value]
        of = type(items[0]) if items else None
        plain = [_plain(item) for item in items]
        default = plain if many else plain[0]
    kinds = _KINDS.get(of)
    if kinds is None or any(type(item) is not of for item in items):
        raise InputError(f"an attribute of {name} cannot be {value!r}")
    return kinds[many], default


def _plain(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def find_contrib_schema(domain: str, op_type: str) -> NodeSchema | None:
    """Return the schema of an operator of another domain; None if it is unknown."""
    given = SCHEMAS.get(f"{domain}.{op_type}")
    if given is not None:
        return given
    return find_microsoft_schema(domain, op_type) or find_qonnx_schema(domain, op_type)
