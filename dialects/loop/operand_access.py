"""Fast access to operands of frequently used ops.

For an op with several operand groups, xDSL decodes the attribute with the group sizes at each
access. The properties made here detect the optional operand by the type of the last operand
instead, which is ten times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from xdsl.ir import Attribute, Operation, SSAValue

# The read-only view of the operands would take most of the time.
# pyright: reportPrivateUsage=false

_Op = TypeVar("_Op", bound=type[Operation])

_item = tuple[SSAValue, ...].__getitem__
"""Bypasses `SSAValues.__getitem__`, which checks for slices."""


def quick_operands(
    *fixed: str, variadic: str, optional: tuple[str, type[Attribute]]
) -> Callable[[_Op], _Op]:
    """Return a decorator for an op class with these operands, in this order.

    Args:
        fixed: names of the required operands.
        variadic: name of the operand group after them.
        optional: name and type of the optional last operand; no other operand that can be last may
            have this type.
    """
    name, type_ = optional
    start = len(fixed)

    def group(op: Operation) -> Sequence[SSAValue]:
        operands = op._operands
        end = len(operands)
        if end > start and type(_item(operands, -1).type) is type_:
            end -= 1
        return operands[start:end]

    def last(op: Operation) -> SSAValue | None:
        operands = op._operands
        value = _item(operands, -1)
        return value if len(operands) > start and type(value.type) is type_ else None

    def decorate(cls: _Op) -> _Op:
        for position, each in enumerate(fixed):
            setattr(cls, each, property(_single(position)))
        setattr(cls, variadic, property(group))
        setattr(cls, name, property(last))
        return cls

    return decorate


def _single(position: int) -> Callable[[Operation], SSAValue]:
    return lambda op: _item(op._operands, position)
