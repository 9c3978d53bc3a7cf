"""Dependence analysis for vectorised loops: whether iterations may run as lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tcopt.dialects import loop
from tcopt.dialects.loop.updates import update_of
from tcopt.passes.loop.analysis.indexing import Knowledge, ValueSum, value_sum


class NotVectorizable(Exception):
    """Reason why a loop cannot be vectorised."""


@dataclass(frozen=True)
class _LaneAccess:
    is_store: bool
    totals: tuple[ValueSum, ...]
    steps: tuple[int, ...]


def check_lanes_independent(op: loop.ForOp, known: Knowledge) -> None:
    """Raise NotVectorizable if an iteration may access an element that another one writes.

    Accesses of different iterations never alias if, in some dimension, both have the same stride,
    and their distance is zero, not a multiple of the stride, or beyond the last lane. Updates of
    one element by all lanes are not a conflict if nothing else accesses it.
    """
    accesses: dict[SSAValue, list[_LaneAccess]] = {}
    for inner in op.walk():
        if isinstance(inner, loop.ForOp) and inner is not op:
            known.enter_loop(inner)
        elif isinstance(inner, loop.LoadOp | loop.StoreOp):
            found = _access(inner, op.induction_variable, known)
            accesses.setdefault(inner.memref, []).append(found)
    updates = [s for s in op.walk() if isinstance(s, loop.StoreOp) and update_of(s) is not None]
    summed = {s.memref for s in updates if not any(_access(s, op.induction_variable, known).steps)}
    for buffer, group in accesses.items():
        stores = [access for access in group if access.is_store]
        if buffer in summed and len(group) == 2:
            continue
        for store in stores:
            for other in group:
                if not _never_meet(store, other, op.trip_count, uniform_is_fine=len(group) == 1):
                    raise NotVectorizable("iterations depend on each other")


def _access(op: loop.LoadOp | loop.StoreOp, lane: SSAValue, known: Knowledge) -> _LaneAccess:
    totals: list[ValueSum] = []
    steps: list[int] = []
    for expr in op.map.data.results:
        total = value_sum(known.linear(expr, op.indices), op.indices)
        terms = dict(total.terms)
        steps.append(terms.pop(lane, 0))
        totals.append(ValueSum(frozenset(terms.items()), total.constant))
    return _LaneAccess(isinstance(op, loop.StoreOp), tuple(totals), tuple(steps))


def _never_meet(
    store: _LaneAccess, other: _LaneAccess, lanes: int, *, uniform_is_fine: bool
) -> bool:
    if not any(store.steps):
        # All lanes write one element, which is legal if nothing reads it: the values are equal.
        return uniform_is_fine
    dims: Sequence[int] = range(len(store.steps))
    return any(_apart(store, other, dim, lanes) for dim in dims)


def _apart(store: _LaneAccess, other: _LaneAccess, dim: int, lanes: int) -> bool:
    step = store.steps[dim]
    if not step or other.steps[dim] != step:
        return False
    a, b = store.totals[dim], other.totals[dim]
    if a.terms != b.terms:
        return False
    distance = abs(a.constant - b.constant)
    return distance % abs(step) != 0 or distance == 0 or distance // abs(step) >= lanes
