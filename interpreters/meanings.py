"""What ops from outside of the package mean, as functions on numpy arrays.

    @meaning(CubeOp)
    def cube(op: CubeOp, x: Array) -> Array:
        return x * x * x

The interpreters of the loop and kernel levels call it for an op with one result that they have no
rule for. If operands and result have one shape, it is called for single elements or for arrays. A
reducing op, such as a dot product of vectors with a scalar result, gets whole vectors as the last
dimensions of its arrays:

    @meaning(DotOp)
    def dot(op: DotOp, acc: Array, a: Array, b: Array) -> Array:
        return acc + (a * b).sum(-1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numpy.typing import NDArray
from xdsl.ir import Operation

from tcopt.support.registration import Registry

Array = NDArray[Any]
_Meaning = TypeVar("_Meaning", bound=Callable[..., Any])

MEANINGS: Registry[str, Callable[..., Any]] = Registry("meaning of")
"""By the names of ops."""


def meaning(*ops: type[Operation]) -> Callable[[_Meaning], _Meaning]:
    """Register a function as the meaning of ops, on numpy arrays.

    Raises:
        InputError: an op has a meaning from outside already.
    """

    def register(function: _Meaning) -> _Meaning:
        for op in ops:
            MEANINGS.add(op.name, function)
        return function

    return register


def meaning_of(op: Operation) -> Callable[..., Any] | None:
    """What an op computes, given its operands alone; None where nobody has said it."""
    function = MEANINGS.get(op.name)
    return None if function is None else lambda *operands: function(op, *operands)
