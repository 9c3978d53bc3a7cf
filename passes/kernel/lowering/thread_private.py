"""Private buffers of a kernel, reduced to the part of one thread.

A thread loop inside of another loop of the same axis runs each iteration on the thread with its
number. A register buffer that all accesses index by their thread number becomes a smaller buffer in
each thread.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr

from tcopt.dialects import loop
from tcopt.dialects.loop.analysis import buffer_shape
from tcopt.passes.loop.analysis.indexing import Knowledge
from tcopt.passes.loop.edits.dimensions import AccessOp, accesses_of, drop_dimensions, reshape
from tcopt.support.errors import PassFailedError


@dataclass(frozen=True)
class _Surroundings:
    """Loops and ranges that hold inside of an op.

    Attributes:
        loops: the enclosing loops, the op included.
        threads: the enclosing thread loops.
        known: ranges of the loop variables, narrowed by the enclosing conditions.
    """

    loops: tuple[loop.ForOp, ...] = ()
    threads: tuple[loop.ForOp, ...] = ()
    known: Knowledge = field(default_factory=Knowledge)


class _Places:
    """Surroundings of accesses, computed once for each enclosing op."""

    def __init__(self) -> None:
        self._inside: dict[Operation, _Surroundings] = {}

    def of(self, op: Operation) -> _Surroundings:
        """Return the surroundings of an op."""
        parent = op.parent_op()
        if parent is None or isinstance(parent, loop.FuncOp):
            return _Surroundings()
        if parent not in self._inside:
            self._inside[parent] = _entered(self.of(parent), parent)
        return self._inside[parent]


def _entered(outer: _Surroundings, op: Operation) -> _Surroundings:
    """Return the surroundings of ops inside of an op, given those of the op itself."""
    if not isinstance(op, loop.ForOp | loop.GuardOp):
        return outer
    known = outer.known
    known = replace(
        known, ranges=dict(known.ranges), facts=list(known.facts), lanes=set(known.lanes)
    )
    known.enter(op)
    if isinstance(op, loop.GuardOp):
        return replace(outer, known=known)
    threads = (*outer.threads, op) if loop.is_thread(op) else outer.threads
    return _Surroundings((*outer.loops, op), threads, known)


def drop_thread_dimensions(function: loop.FuncOp) -> None:
    """Remove dimensions of private buffers that are indexed by the thread number."""
    places = _Places()
    for op in tuple(function.walk()):
        if not isinstance(op, loop.AllocOp) or not op.scope.data.is_private:
            continue
        accesses = accesses_of(op)
        if not accesses:
            continue
        shape = buffer_shape(op.result)
        dropped: dict[int, loop.ThreadAxisAttr] = {}
        for dim in range(len(shape)):
            axes = [_thread_axes(access, dim, places.of(access)) for access in accesses]
            common = axes[0].intersection(*axes[1:]) - set(dropped.values())
            if common:
                dropped[dim] = min(common, key=lambda axis: axis.data.value)
        _check_own(op, accesses, set(dropped.values()), places)
        if dropped:
            for access in accesses:
                drop_dimensions(access, dropped)
            reshape(op, [extent for dim, extent in enumerate(shape) if dim not in dropped])


def _check_own(
    alloc: loop.AllocOp,
    accesses: Sequence[AccessOp],
    axes: Collection[loop.ThreadAxisAttr],
    places: _Places,
) -> None:
    """Check that each thread only stores to its own part of a private buffer."""
    outer = set(places.of(alloc).loops)
    for access in accesses:
        if not isinstance(access, loop.StoreOp):
            continue
        for each in places.of(access).threads:
            if each not in outer and each.trip_count > 1 and each.axis not in axes:
                raise PassFailedError(
                    f"threads store in the private buffer %{alloc.result.name_hint or 'unnamed'} "
                    "for other threads",
                    op=access,
                    hint="make it shared, or index it by the thread number only",
                )


def _thread_axes(access: AccessOp, dim: int, place: _Surroundings) -> set[loop.ThreadAxisAttr]:
    """Return the axes whose thread number is the index of an access in a dimension."""
    expr = access.map.data.results[dim]
    if any(row[dim] for row in access.lane_steps):
        return set()
    match expr:
        case AffineDimExpr():
            variable = access.indices[expr.position]
            found = [each for each in place.threads if each.induction_variable is variable]
        case AffineConstantExpr():
            # A condition may restrict the access to a single thread.
            only, ranges = (expr.value, expr.value), place.known.ranges
            found = [each for each in place.threads if ranges[each.induction_variable] == only]
        case _:
            found = []
    return {each.axis for each in found if each.axis is not None}
