"""Registers of a kernel: what of a buffer is one thread's.

Loops over threads inside of other loops of the same axis run each iteration on the thread of its
number. A register buffer that all of them index by their own number is then a smaller one in
each thread.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from tcopt.dialects import loop
from tcopt.passes.loop.dimensions import Access, accesses_of, drop_dimensions, reshape
from tcopt.passes.loop.indexing import shape_of
from tcopt.support.errors import PassFailedError

_PRIVATE = (loop.Scope.REGISTER, loop.Scope.LOCAL)


def drop_thread_dimensions(function: loop.FuncOp) -> None:
    """Take away dimensions of private buffers whose index is the number of the thread."""
    for op in tuple(function.walk()):
        if not isinstance(op, loop.AllocOp) or op.scope.data not in _PRIVATE:
            continue
        accesses = accesses_of(op)
        if not accesses:
            continue
        shape = shape_of(op.result)
        dropped: dict[int, loop.ThreadAxisAttr] = {}
        for dim in range(len(shape)):
            axes = {_thread_axis(access, dim) for access in accesses}
            (axis,) = axes if len(axes) == 1 else (None,)
            if axis is not None:
                dropped[dim] = axis
        _check_own(op, accesses, set(dropped.values()))
        if dropped:
            for access in accesses:
                drop_dimensions(access, dropped)
            reshape(op, [extent for dim, extent in enumerate(shape) if dim not in dropped])


def _check_own(
    alloc: loop.AllocOp, accesses: Sequence[Access], axes: Collection[loop.ThreadAxisAttr]
) -> None:
    """Check that what each thread stores in a buffer of its own is meant for itself."""
    outer = set(loop.enclosing_loops(alloc))
    for access in accesses:
        for each in loop.enclosing_loops(access):
            threads = loop.is_thread(each) and each not in outer and each.trip_count > 1
            if isinstance(access, loop.StoreOp) and threads and each.axis not in axes:
                raise PassFailedError(
                    f"threads store in %{alloc.result.name_hint or 'unnamed'}, which each of them "
                    "has in its registers, what others would read",
                    op=access,
                    hint="let it be shared, or index it by the number of the thread alone",
                )


def _thread_axis(access: Access, dim: int) -> loop.ThreadAxisAttr | None:
    """The axis whose position is an index, as the attribute of the loop over it."""
    expr = access.map.data.results[dim]
    if not isinstance(expr, AffineDimExpr):
        return None
    value: SSAValue = access.indices[expr.position]
    found = loop.loop_of(value)
    return found.axis if found is not None and loop.is_thread(found) else None
