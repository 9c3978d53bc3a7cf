"""Quick access to the operands of ops that passes look at all the time.

For an op with several operand groups xDSL finds a group by unpacking the attribute with their
sizes, each time. The properties made here tell by the type of the last operand whether the
optional one is there, which takes a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from xdsl.ir import Attribute, Operation, SSAValue

# The view that is in front of them would take most of the time.
# pyright: reportPrivateUsage=false

_Op = TypeVar("_Op", bound=type[Operation])

_item = tuple[SSAValue, ...].__getitem__
"""Without the method of `SSAValues`, which looks for slices."""


def quick_operands(
    *fixed: str, variadic: str, optional: tuple[str, type[Attribute]]
) -> Callable[[_Op], _Op]:
    """A decorator for an op class with these operands, in this order.

    Args:
        fixed: names of the operands that are always there.
        variadic: the name of the group after them.
        optional: the name of the operand at the end, and its type, which no other operand
            that may come last has.
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
