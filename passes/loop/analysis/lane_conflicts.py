"""Check that the iterations of a loop may run as the lanes of vectors."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tcopt.dialects import loop
from tcopt.dialects.loop.dependences import Alias, Relation, Touch, alias, touches_of
from tcopt.dialects.loop.updates import update_of


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
        for store in stores:
            for other in group:
                for relation in (Relation.BEFORE, Relation.AFTER):
                    if alias(store, other, {**equal, op: relation}) is not Alias.NEVER:
                        raise NotVectorizable("iterations depend on each other")


def _depends_on(touch: Touch, op: loop.ForOp) -> bool:
    """Whether an access touches different elements in the iterations of a loop around it."""
    position = touch.loops.index(op)
    return any(total is None or position in total.dims for total in touch.indices)
