"""Verification of ops that call a function by name."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FunctionType, SymbolRefAttr
from xdsl.ir import Attribute, Operation
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException


def verify_call(
    op: Operation,
    callee: SymbolRefAttr,
    inputs: Sequence[Attribute],
    outputs: Sequence[Attribute] = (),
) -> None:
    """Check that the types of a call match the function; detached ops are not checked.

    Raises:
        VerifyException: the function does not exist, or has another signature.
    """
    if not _is_in_module(op):
        return
    function = SymbolTable.lookup_symbol(op, callee)
    declared = None if function is None else getattr(function, "function_type", None)
    if not isinstance(declared, FunctionType):
        raise VerifyException(f"there is no function {callee}")
    if (declared.inputs.data, declared.outputs.data) != (tuple(inputs), tuple(outputs)):
        used = FunctionType.from_lists(inputs, outputs)
        raise VerifyException(f"{callee} has type {declared}, but is called with {used}")


def _is_in_module(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None:
        if parent.name == "builtin.module":
            return True
        parent = parent.parent_op()
    return False
