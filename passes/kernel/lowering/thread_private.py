"""Private buffers of a kernel, reduced to the part of one thread.

A thread loop inside of another loop of the same axis runs each iteration on the thread with its
number. A register buffer that all accesses index by their thread number becomes a smaller buffer in
each thread.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace

from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr

from tcopt.dialects import loop
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.passes.loop.analysis.indexing import Knowledge
from tcopt.passes.loop.edits.dimensions import AccessOp, accesses_of, drop_dimensions, reshape
from tcopt.support.errors import PassFailedError


def drop_thread_dimensions(function: loop.FuncOp) -> None:
    """Remove dimensions of private buffers that are indexed by the thread number."""
    for op in tuple(function.walk()):
        if not isinstance(op, loop.AllocOp) or not op.scope.data.is_private:
            continue
        accesses = accesses_of(op)
        if not accesses:
            continue
        shape = buffer_shape(op.result)
        dropped: dict[int, loop.ThreadAxisAttr] = {}
        for dim in range(len(shape)):
            axes = [_thread_axes(access, dim) for access in accesses]
            common = axes[0].intersection(*axes[1:]) - set(dropped.values())
            if common:
                dropped[dim] = min(common, key=lambda axis: axis.data.value)
        _check_own(op, accesses, set(dropped.values()))
        if dropped:
            for access in accesses:
                drop_dimensions(access, dropped)
            reshape(op, [extent for dim, extent in enumerate(shape) if dim not in dropped])


def _check_own(
    alloc: loop.AllocOp, accesses: Sequence[AccessOp], axes: Collection[loop.ThreadAxisAttr]
) -> None:
    """Check that each thread only stores to its own part of a private buffer."""
    outer = set(loop.enclosing_loops(alloc))
    for access in accesses:
        for each in loop.enclosing_loops(access):
            threads = loop.is_thread(each) and each not in outer and each.trip_count > 1
            if isinstance(access, loop.StoreOp) and threads and each.axis not in axes:
                raise PassFailedError(
                    f"threads store in the private buffer %{alloc.result.name_hint or 'unnamed'} "
                    "for other threads",
                    op=access,
                    hint="make it shared, or index it by the thread number only",
                )


def _thread_axes(access: AccessOp, dim: int) -> set[loop.ThreadAxisAttr]:
    """Return the axes whose thread number is the index of an access in a dimension."""
    expr = access.map.data.results[dim]
    around = [each for each in loop.enclosing_loops(access) if loop.is_thread(each)]
    if any(row[dim] for row in access.lane_steps):
        return set()
    match expr:
        case AffineDimExpr():
            variable = access.indices[expr.position]
            found = [each for each in around if each.induction_variable is variable]
        case AffineConstantExpr():
            # A condition may restrict the access to a single thread.
            ranges = _known_at(access).ranges
            only = (expr.value, expr.value)
            found = [each for each in around if ranges[each.induction_variable] == only]
        case _:
            found = []
    return {each.axis for each in found if each.axis is not None}


def _known_at(op: Operation) -> Knowledge:
    """Return the known ranges from the loops and guards around an op."""
    known = Knowledge()
    parents: list[Operation] = []
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, loop.FuncOp):
        parents.append(parent)
        parent = parent.parent_op()
    with ExitStack() as stack:
        for each in reversed(parents):
            if isinstance(each, loop.ForOp):
                known.enter_loop(each)
            elif isinstance(each, loop.GuardOp):
                conditions = (each.map.data.results, each.indices, each.condition_extents)
                stack.enter_context(known.inside_guard(*conditions))
        return replace(known, ranges=dict(known.ranges), facts=[])
