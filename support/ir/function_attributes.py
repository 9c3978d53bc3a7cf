"""Verification of attributes of a function's arguments and results.

xDSL verifies each attribute in isolation. An attribute that must match the argument's type, or
other attributes of the same function, has a method `verify_function`; `support.ir.verify` calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

_VISIBILITIES = ("public", "private", "nested")


class Position(NamedTuple):
    """An attribute, with the argument or result that has it, named as in messages."""

    where: str
    type: Attribute
    attribute: Attribute


@runtime_checkable
class FunctionAttribute(Protocol):
    """An attribute with rules about the function that it is attached to."""

    @classmethod
    def verify_function(cls, positions: Sequence[Position]) -> None:
        """Check all attributes of this class in one function.

        Raises:
            VerifyException: the attributes do not match their types or each other.
        """
        ...


def verify_function_attributes(function: FuncOp) -> None:
    """Check the attributes of a function's arguments and results.

    Raises:
        VerifyException: an attribute violates a rule.
    """
    visibility = function.sym_visibility
    if visibility is not None and visibility.data not in _VISIBILITIES:
        raise VerifyException(
            f'visibility "{visibility.data}" is not one of {", ".join(_VISIBILITIES)}'
        )
    if not function.body.blocks and any(_positions(function)):
        raise VerifyException("a function without a body cannot have argument or result attributes")
    found: dict[type[FunctionAttribute], list[Position]] = {}
    for position in _positions(function):
        if isinstance(position.attribute, FunctionAttribute):
            found.setdefault(type(position.attribute), []).append(position)
    for kind, positions in found.items():
        kind.verify_function(positions)


def _positions(function: FuncOp) -> Iterator[Position]:
    types = function.function_type
    for what, attributes, own in (
        ("argument", function.arg_attrs, types.inputs),
        ("result", function.res_attrs, types.outputs),
    ):
        yield from _of_kind(what, attributes, list(own))


def _of_kind(
    what: str, attributes: ArrayAttr[DictionaryAttr] | None, types: Sequence[Attribute]
) -> Iterator[Position]:
    # xDSL's own verifier reports a mismatch of their numbers.
    for number, (given, type_) in enumerate(zip(attributes or (), types, strict=False)):
        for attribute in given.data.values():
            yield Position(f"{what} {number}", type_, attribute)
