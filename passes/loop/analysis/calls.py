"""Lookup of the calls of functions."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from tcopt.dialects import loop


def calls_by_name(module: ModuleOp) -> dict[str, list[loop.CallOp]]:
    """Return the calls in host functions, by the name of the callee."""
    calls: dict[str, list[loop.CallOp]] = {}
    for host in module.ops:
        if isinstance(host, func.FuncOp):
            for op in host.walk():
                if isinstance(op, loop.CallOp):
                    calls.setdefault(op.callee.string_value(), []).append(op)
    return calls
