"""Checks that buffers fit into their memory scopes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from xdsl.ir import Operation

from tcopt.dialects import loop
from tcopt.dialects.memory_sizes import memref_bytes
from tcopt.support.errors import PassFailedError


def check_capacities(function: loop.FuncOp) -> None:
    """Check that the live buffers in each memory scope never exceed its capacity.

    Raises:
        PassFailedError: they do.
    """
    allocs = [op for op in function.walk() if isinstance(op, loop.AllocOp)]
    if all(alloc.scope.data.capacity is None for alloc in allocs):
        return
    for scope, size in _most_bytes(function).items():
        if scope.capacity is not None and size > scope.capacity:
            first = next(alloc for alloc in allocs if alloc.scope.data == scope)
            raise PassFailedError(
                f"buffers of scope {scope} need {size} bytes at a time, but its capacity is "
                f"{scope.capacity}",
                op=first,
                hint="use smaller tiles there, or another memory scope",
            )


def _most_bytes(op: Operation) -> Mapping[loop.Scope, int]:
    """Return the maximum live bytes of each scope inside an op: those of its own buffers, and the
    maximum over its nested ops.
    """
    own: defaultdict[loop.Scope, int] = defaultdict(int)
    inside: defaultdict[loop.Scope, int] = defaultdict(int)
    for region in op.regions:
        for inner in (inner for block in region.blocks for inner in block.ops):
            if isinstance(inner, loop.AllocOp):
                own[inner.scope.data] += memref_bytes(inner.result.type)
            elif inner.regions:
                for scope, size in _most_bytes(inner).items():
                    inside[scope] = max(inside[scope], size)
    return {scope: own[scope] + inside[scope] for scope in {**own, **inside}}
