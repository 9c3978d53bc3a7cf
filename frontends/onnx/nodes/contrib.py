"""The form of operators outside of ONNX that models hold: onnxruntime's, and those that a program
brings."""

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
from tcopt.support.registration import Registry

SCHEMAS: Registry[str, ContribSchema] = Registry("schema of operator")
"""Schemas of operators of other domains that a program brings, by domain and name."""

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
    """Say what nodes of an operator of another domain may look like.

    Args:
        name: the domain and the operator, as in `my.company.Gate`.
        inputs, results: how many there are at least and at most.
        attributes: defaults by name: a number, a text or a list of these; the type itself, such
            as `float`, or `list[float]`, for one that has to be given.
    Raises:
        InputError: there is a schema already, or a default is of no such type.
    """
    known = {attribute: _attribute(name, value) for attribute, value in (attributes or {}).items()}
    schema = contrib_schema(name.rpartition(".")[2], *inputs, known, results)
    SCHEMAS.add(name, schema)


def _attribute(name: str, value: Any) -> tuple[int, Any]:
    """The kind and the default of an attribute."""
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
    """The schema of an operator of another domain; None where it is not known."""
    given = SCHEMAS.get(f"{domain}.{op_type}")
    if given is not None:
        return given
    return find_microsoft_schema(domain, op_type) or find_qonnx_schema(domain, op_type)
