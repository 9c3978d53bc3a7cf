"""Registers of a kernel: what of a buffer is one thread's.

Loops over threads inside of other loops of the same axis run each iteration on the thread of its
number. A register buffer that all of them index by their own number is then a smaller one in
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
    """Take away dimensions of private buffers whose index is the number of the thread."""
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


def _thread_axes(access: AccessOp, dim: int) -> set[loop.ThreadAxisAttr]:
    """The axes along which the number of the thread is one index of an access."""
    expr = access.map.data.results[dim]
    around = [each for each in loop.enclosing_loops(access) if loop.is_thread(each)]
    if any(row[dim] for row in access.lane_steps):
        return set()
    match expr:
        case AffineDimExpr():
            variable = access.indices[expr.position]
            found = [each for each in around if each.induction_variable is variable]
        case AffineConstantExpr():
            # A condition may let a single thread come here.
            ranges = _known_at(access).ranges
            only = (expr.value, expr.value)
            found = [each for each in around if ranges[each.induction_variable] == only]
        case _:
            found = []
    return {each.axis for each in found if each.axis is not None}


def _known_at(op: Operation) -> Knowledge:
    """What is known of the loops around an op."""
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
