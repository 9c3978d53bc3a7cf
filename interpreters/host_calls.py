"""Host calls and the string tables that they use, for the interpreters of all levels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.utils.hints import isa

from tcopt.support.data.strings import StringTable, current_strings, strings_in
from tcopt.support.errors import InputError
from tcopt.support.host.host_calls import HOST_CALL, STRINGS, plain_settings
from tcopt.support.host.host_functions.registry import find_host_function

Array = NDArray[Any]


def module_strings(module: ModuleOp) -> StringTable:
    """Return a table with the strings of a module."""
    texts = module.attributes.get(STRINGS)
    if not isa(texts, ArrayAttr[StringAttr]):
        return StringTable()
    return StringTable([text.data for text in texts] or [""])


def strings_of(module: ModuleOp) -> AbstractContextManager[object]:
    """Return a context in which a module's strings are available, unless some already are."""
    try:
        current_strings()
    except InputError:
        return strings_in(module_strings(module))
    return nullcontext()


def host_call(module: ModuleOp, name: str) -> FuncOp | None:
    """Return the declaration of a function that the host computes; None for other functions."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == name and HOST_CALL in op.attributes:
            return op
    return None


def run_host_call(declaration: FuncOp, arrays: Sequence[Array]) -> None:
    """Run a host call on arrays for the operands, followed by those that receive the results."""
    facts = declaration.attributes[HOST_CALL]
    assert isinstance(facts, DictionaryAttr)
    name, settings = facts.data["function"], facts.data["settings"]
    assert isinstance(name, StringAttr) and isinstance(settings, DictionaryAttr)
    find_host_function(name.data).compute(plain_settings(settings), arrays)
