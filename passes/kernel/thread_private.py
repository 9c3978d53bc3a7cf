"""Registers of a kernel: what of a buffer is one thread's.

Loops over threads inside of other loops of the same axis run each iteration on the thread of its
number. A register buffer that all of them index by their own number is then a smaller one in
each thread.
"""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from tcopt.dialects import loop
from tcopt.passes.loop.dimensions import Access, accesses_of, drop_dimensions, reshape
from tcopt.passes.loop.indexing import shape_of

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
        around = {each.axis for each in loop.enclosing_loops(op) if loop.is_thread(each)}
        dropped: set[int] = set()
        for dim in range(len(shape)):
            axes = {_thread_axis(access, dim) for access in accesses}
            if len(axes) == 1 and axes <= around:
                dropped.add(dim)
        if dropped:
            for access in accesses:
                drop_dimensions(access, dropped)
            reshape(op, [extent for dim, extent in enumerate(shape) if dim not in dropped])


def _thread_axis(access: Access, dim: int) -> loop.ThreadAxisAttr | None:
    """The axis whose position is an index, as the attribute of the loop over it."""
    expr = access.map.data.results[dim]
    if not isinstance(expr, AffineDimExpr):
        return None
    value: SSAValue = access.indices[expr.position]
    found = loop.loop_of(value)
    return found.axis if found is not None and loop.is_thread(found) else None
