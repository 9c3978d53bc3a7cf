"""Donated inputs of a compile: which results may overwrite an input."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from tcopt.compiler.rooms import give_rooms
from tcopt.dialects.graph.core.donation import DONATED, count_in, names_in, set_pairs
from tcopt.support.errors import InputError


def donate(module: ModuleOp, pairs: Mapping[str, str]) -> None:
    """Permit results of an imported module to overwrite inputs, and give rooms to those that grow.

    Args:
        pairs: name of the result by name of the input.
    Raises:
        InputError: an input or output does not exist, or two inputs share an output.
    """
    inputs = _own_names(module, "graph.inputs", "graph.keys")
    outputs = _own_names(module, "graph.outputs", "graph.checks", "graph.sizes")
    for what, names, known in (
        ("input", pairs.keys(), inputs),
        ("output", pairs.values(), outputs),
    ):
        for name in names:
            if name not in known:
                message = f'donate names {what} "{name}", which the model does not have'
                raise InputError(message, hint=f"its {what}s are {', '.join(known)}")
    if len({*pairs.values()}) < len(pairs):
        raise InputError("donate gives several inputs to one output", hint="give one of them")
    set_pairs(module, DONATED, pairs)
    give_rooms(module)


def _own_names(module: ModuleOp, key: str, *added: str) -> list[str]:
    """Return the names of the model's own inputs or outputs, which precede those added."""
    names = names_in(module, key)
    return names[: len(names) - sum(count_in(module, each) for each in added)]
