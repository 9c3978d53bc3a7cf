"""Whether buffers fit into the memories that they are said to live in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from xdsl.ir import Operation

from tcopt.dialects import loop
from tcopt.dialects.memory_sizes import memref_bytes
from tcopt.support.errors import PassFailedError


def check_capacities(function: loop.FuncOp) -> None:
    """Check that what is alive at a time in a memory scope is no more than it holds.

    Raises:
        PassFailedError: it is.
    """
    allocs = [op for op in function.walk() if isinstance(op, loop.AllocOp)]
    if all(alloc.scope.data.capacity is None for alloc in allocs):
        return
    for scope, size in _most_bytes(function).items():
        if scope.capacity is not None and size > scope.capacity:
            first = next(alloc for alloc in allocs if alloc.scope.data == scope)
            raise PassFailedError(
                f"buffers of scope {scope} take {size} bytes at a time, and it has "
                f"{scope.capacity}",
                op=first,
                hint="use smaller tiles there, or another memory scope",
            )


def _most_bytes(op: Operation) -> Mapping[loop.Scope, int]:
    """The most bytes of each scope that are alive at a time inside an op: those of a region's own
    buffers, and the most that one of its ops has inside."""
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
