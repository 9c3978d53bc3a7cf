"""Check that the iterations of a loop may run as the lanes of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

from xdsl.ir import SSAValue

from tcopt.dialects import loop
from tcopt.dialects.loop.dependences import Alias, Relation, Touch, alias, touches_of
from tcopt.dialects.loop.updates import update_of

_ORDERS = Relation.BEFORE, Relation.AFTER


class NotVectorizable(Exception):
    """Reason why a loop cannot be vectorised."""


def check_lanes_independent(op: loop.ForOp) -> None:
    """Raise NotVectorizable if an iteration may access an element that another one writes.

    Updates of one element by all lanes are not a conflict if nothing else accesses it.
    """
    found: dict[SSAValue, list[Touch]] = {}
    for inner in op.walk():
        if isinstance(inner, loop.LoadOp | loop.StoreOp):
            found.setdefault(inner.memref, []).extend(touches_of(inner, inner.memref))
    equal = dict.fromkeys(loop.enclosing_loops(op), Relation.EQUAL)
    for group in found.values():
        stores = [touch for touch in group if touch.is_write]
        if len(stores) == 1 and not _depends_on(stores[0], op):
            # All lanes write one element. If nothing else accesses it, the values are equal.
            store = stores[0].op
            is_update = isinstance(store, loop.StoreOp) and update_of(store) is not None
            if len(group) == 1 or (len(group) == 2 and is_update):
                continue
        for first, second in combinations_with_replacement(_distinct(group), 2):
            if not (first.is_write or second.is_write):
                continue
            # For an access and itself, both orders are the same question.
            orders = _ORDERS[:1] if first is second else _ORDERS
            for relation in orders:
                if alias(first, second, {**equal, op: relation}) is not Alias.NEVER:
                    raise NotVectorizable("iterations depend on each other")


def _distinct(group: Sequence[Touch]) -> list[Touch]:
    """Return one access, preferably a store, for each set of elements."""
    found: dict[object, Touch] = {}
    for touch in group:
        known = found.setdefault(touch.elements, touch)
        if touch.is_write and not known.is_write:
            found[touch.elements] = touch
    return list(found.values())


def _depends_on(touch: Touch, op: loop.ForOp) -> bool:
    """Whether an access touches different elements in the iterations of a loop around it."""
    position = touch.loops.index(op)
    return any(total is None or position in total.dims for total in touch.indices)
