"""Lowering of copies to buffers that are filled asynchronously (`async`) to `simt.copy_async`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from tcopt.dialects import loop
from tcopt.dialects.loop.memory import ASYNC
from tcopt.dialects.simt_copies import CopyAsyncOp
from tcopt.passes.kernel.accesses.lane_layouts import lane_count, lane_steps
from tcopt.passes.kernel.lowering.lane_masks import Condition
from tcopt.passes.kernel.lowering.lowering_access import AccessLowering


class CopyLowering:
    """Lowers loads whose values are only stored to an asynchronously filled buffer.

    Args:
        mapped: returns the values in the kernel that correspond to values of the loop function.
    """

    def __init__(
        self, access: AccessLowering, mapped: Callable[[Sequence[SSAValue]], list[SSAValue]]
    ):
        self._access, self._mapped = access, mapped
        self._conditions: dict[loop.LoadOp, list[Condition]] = {}

    def take(self, load: loop.LoadOp) -> bool:
        """Whether a load becomes part of a copy, and is not lowered alone."""
        store = _stored_by(load)
        if store is None:
            return False
        lanes = 0
        for each in (load, store):
            (buffer,) = self._mapped([each.memref])
            steps, lanes, stride = self._access.lane_layout(each, load.result.type, buffer)
            if steps is not None and stride != 1:
                return False
        conditions = self._conditions_of(load, lanes)
        if conditions is not None:
            self._conditions[load] = conditions
        return conditions is not None

    def store(self, op: loop.StoreOp) -> bool:
        """Lower a store whose load was taken; return whether it was."""
        load = op.value.owner
        if not isinstance(load, loop.LoadOp) or load not in self._conditions:
            return False
        writer = self._access.writer
        source, target = self._mapped([load.memref, op.memref])
        places: list[list[SSAValue]] = []
        for each in (load, op):
            operands = self._mapped(each.indices)
            places.append([writer.index(expr, operands) for expr in each.map.data.results])
        operands = self._mapped(load.indices)
        inside = [
            writer.is_inside(each.expr, operands, each.extent) for each in self._conditions[load]
        ]
        writer.forget_loads(target)
        count = lane_count(load.result.type) if load.lanes is not None else 1
        condition = writer.all_of(inside) if inside else None
        writer.write(CopyAsyncOp(source, places[0], target, places[1], count, condition))
        return True

    def _conditions_of(self, load: loop.LoadOp, lanes: int) -> list[Condition] | None:
        """Return the in-bounds conditions of all elements; None if they differ."""
        if load.default is None:
            return []
        steps = None if load.lanes is None else lane_steps(load.lanes)
        operands = self._mapped(load.indices)
        conditions = self._access.open(load, operands, steps, lanes)
        for each in conditions:
            if each.step and not self._is_whole(each, operands, lanes):
                return None
        return conditions

    def _is_whole(self, condition: Condition, operands: Sequence[SSAValue], lanes: int) -> bool:
        """Whether the lanes of a vector are all inside, or all outside."""
        if condition.step != 1 or not isinstance(condition.extent, int):
            return False
        total = self._access.writer.known.linear(condition.expr, operands)
        numbers = (condition.extent, total.constant, *(factor for _, factor in total.terms))
        return all(number % lanes == 0 for number in numbers)


def _stored_by(load: loop.LoadOp) -> loop.StoreOp | None:
    """Return the store to an asynchronously filled buffer that is the only user of a load."""
    if load.mask is not None or not load.result.has_one_use():
        return None
    (use,) = load.result.uses
    store = use.operation
    if not isinstance(store, loop.StoreOp) or store.mask is not None:
        return None
    alloc = store.memref.owner
    if not isinstance(alloc, loop.AllocOp) or ASYNC not in alloc.attributes:
        return None
    lanes = load.lanes is not None and len(load.lanes) != len(load.map.data.results)
    return None if lanes or store.parent is not load.parent else store
