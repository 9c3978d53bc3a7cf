"""Attachment of tuning choices to operators, by the names of their nodes.

A walk by hand: it looks operators up in a table, and edits nothing but their attributes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.tuning import CHOICES, ONLY_ZERO, PREFIX
from tcopt.support.errors import InputError, PassFailedError
from tcopt.support.files.access import cannot_read, open_file
from tcopt.support.ir.origins import node_names
from tcopt.support.ir.rewriting import function_bodies

Table = Mapping[str, Mapping[str, int]]
"""Choices by the name of the node that an op originates from."""


@dataclass(frozen=True)
class TuneGraphPass(ModulePass):
    """Attach the choices of a table to the ops that they are for.

    The table is a JSON file of choices by node name:

        {"conv_3": {"winograd": 4}, "dense_1": {"panel": 32}, "relu_7": {"fuse": 0}}

        %y = graph.conv %x, %w : tensor<1x64x56x56xf32> loc("conv_3")
    ->
        %y = graph.conv %x, %w {tune.winograd = 4} : tensor<1x64x56x56xf32> loc("conv_3")

    Ops that replace other ops originate from the same nodes, so this pass can run before any pass
    that reads choices. It is idempotent.

    Options:
        table: path of the file.
    """

    name = "tune-graph"

    table: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.table:
            raise PassFailedError("tune-graph: the option 'table' is required")
        choices = read_table(self.table)
        for body in function_bodies(op):
            for each in body.ops:
                if isinstance(each, GraphOp):
                    tune(each, choices)


def tune(op: Operation, choices: Table) -> None:
    """Attach the choices for the nodes that an op originates from."""
    for node in node_names(op.location):
        for name, value in choices.get(node, {}).items():
            op.attributes[PREFIX + name] = IntegerAttr(value, i64)


def read_table(path: str) -> Table:
    """Read a table of choices.

    Raises:
        InputError: the file cannot be read, or is not a table of choices.
    """
    try:
        with open_file(path) as file:
            found: object = json.loads(file.read())
    except OSError as error:
        raise cannot_read(path, error) from None
    except ValueError as error:
        raise InputError(f"'{path}' is not a table of choices: {error}") from None
    return checked_table(found, path)


def checked_table(found: object, path: str) -> Table:
    """Return a table parsed from JSON, after checking that all of its choices are known.

    Raises:
        InputError: it is not a valid table of choices.
    """
    if not isinstance(found, dict):
        raise InputError(f"'{path}' is not a table of choices by the names of nodes")
    for node, choices in cast(dict[str, Any], found).items():
        if not isinstance(choices, dict):
            raise InputError(f"'{path}': the choices for '{node}' are not a table")
        for name, value in cast(dict[str, Any], choices).items():
            if name not in CHOICES:
                hint = f"there are {', '.join(CHOICES)}"
                raise InputError(f"'{path}': '{node}' has no choice '{name}'", hint=hint)
            is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            if not is_number or (value and name in ONLY_ZERO):
                raise InputError(f"'{path}': '{name}' of '{node}' is {CHOICES[name]}, not {value}")
    return cast(Table, found)
