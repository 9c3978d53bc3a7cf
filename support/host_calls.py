"""Calls of host functions in IR: what is called, with which settings."""

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
"""On the declaration of a function that the runtime defines: `{function = "...", settings}`."""

STRINGS = "graph.strings"
"""Of a module: the strings of its table, by place."""

TEXT_INPUTS, TEXT_OUTPUTS = "graph.text_inputs", "graph.text_outputs"
"""Of a module: the names of the inputs and outputs that are places of strings."""


def settings_attribute(settings: Mapping[str, Any]) -> DictionaryAttr:
    """Numbers, strings and lists of them as an attribute."""
    return DictionaryAttr({name: _attribute(value) for name, value in settings.items()})


def plain_settings(attribute: DictionaryAttr) -> dict[str, Any]:
    """What `settings_attribute` was given.

    Raises:
        VerifyException: the attribute holds something else.
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
            raise VerifyException(f"{value} is not a setting of a host function")
