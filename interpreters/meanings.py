"""Meanings of third-party ops, as functions on numpy arrays.

    @meaning(CubeOp)
    def cube(op: CubeOp, x: Array) -> Array:
        return x * x * x

The executors of the loop and kernel levels call the function for an op with one result. If
operands and result have equal shapes, it is called for single elements or for arrays. For a
reducing op, such as a dot product of vectors with a scalar result, the last dimensions of its
arrays are whole vectors:

    @meaning(DotOp)
    def dot(op: DotOp, acc: Array, a: Array, b: Array) -> Array:
        return acc + (a * b).sum(-1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray
from xdsl.ir import Operation

from tcopt.support.registries.registration import Registry

Array = NDArray[Any]
_Meaning = TypeVar("_Meaning", bound=Callable[..., Any])

MEANINGS: Registry[str, Callable[..., Any]] = Registry("meaning of")
"""Registered meanings, by op name."""


def meaning(*ops: type[Operation]) -> Callable[[_Meaning], _Meaning]:
    """Register a function as the meaning of ops, on numpy arrays.

    Raises:
        InputError: another plugin has registered a meaning of an op.
    """

    def register(function: _Meaning) -> _Meaning:
        for op in ops:
            MEANINGS.add(op.name, function)
        return function

    return register


def meaning_of(op: Operation) -> Callable[..., Any] | None:
    """Return a function that computes an op from its operands; None if no meaning is registered."""
    function = MEANINGS.get(op.name)
    return None if function is None else lambda *operands: function(op, *operands)
