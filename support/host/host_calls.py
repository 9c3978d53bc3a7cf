"""Calls of host functions in IR: the function and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

HOST_CALL = "tcopt.host_call"
"""Attribute on the declaration of a runtime function: `{function = "...", settings}`."""

STRINGS = "graph.strings"
"""Module attribute with the string table."""

TEXT_INPUTS, TEXT_OUTPUTS = "graph.text_inputs", "graph.text_outputs"
"""Module attributes with the names of the inputs and outputs that are indices into the string
table.
"""


def settings_attribute(settings: Mapping[str, Any]) -> DictionaryAttr:
    """Convert numbers, strings and lists of them to an attribute."""
    return DictionaryAttr({name: _attribute(value) for name, value in settings.items()})


def plain_settings(attribute: DictionaryAttr) -> dict[str, Any]:
    """Convert the result of `settings_attribute` back to plain values.

    Raises:
        VerifyException: the attribute has other values.
    """
    return {name: _plain(value) for name, value in attribute.data.items()}


def _attribute(value: Any) -> Attribute:
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, int):
        return IntegerAttr(int(value), i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    return ArrayAttr([_attribute(item) for item in value])


def _plain(value: Any) -> Any:
    if isinstance(value, ArrayAttr):
        items: tuple[Any, ...] = cast(Any, value).data
        return [_plain(item) for item in items]
    match value:
        case StringAttr():
            return value.data
        case IntegerAttr() | FloatAttr():
            return value.value.data
        case _:
            raise VerifyException(f"{value} is not a valid setting of a host function")
