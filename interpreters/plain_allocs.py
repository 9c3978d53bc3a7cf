"""New buffers of the plain translation, filled with NaN or the minimum integer at each allocation.

An allocation in a loop fills its buffer in every iteration. If the iteration stores to a small part
of a large buffer, as is common before buffers are compacted, the fills would dominate the run time.
Such a buffer tracks the interval of row-major positions stored to, and only that is filled again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from tcopt.dialects import loop
from tcopt.interpreters.plain_text import (
    BYTES,
    PlainWriter,
    float_text,
    is_float_text,
    lanes_of,
    memory_text,
)


class NewBuffers:
    """Allocations of a function, and the intervals of stored positions.

    Args:
        reserve: returns the address of zero-initialised memory of a given size.
    """

    def __init__(self, writer: PlainWriter, reserve: Callable[[int], str]) -> None:
        self._writer = writer
        self._reserve = reserve
        self._intervals: dict[SSAValue, tuple[str, str, int]] = {}

    def allocate(self, op: loop.AllocOp) -> str:
        """Write code that fills a buffer; returns its address."""
        type_ = op.result.type
        assert isa(type_, MemRefType)
        memory, count = memory_text(type_.get_element_type()), prod(type_.get_shape())
        place, w = self._reserve(count * BYTES[memory]), self._writer
        low, end = "0", str(count)
        if _stores_to_few(op, count):
            # Number of leading and of trailing elements without a store: initially 0, so that all
            # are filled.
            front, back = self._reserve(8), self._reserve(8)
            self._intervals[op.result] = front, back, count
            low = w.assign(f"load i64, ptr {front}")
            end = w.assign(f"sub i64 {count}, {w.assign(f'load i64, ptr {back}')}")
            for untouched in (front, back):
                w.line(f"store i64 {count}, ptr {untouched}")
        with w.loop(w.assign(f"sub i64 {end}, {low}")) as counter:
            position = w.assign(f"add i64 {counter}, {low}")
            pointer = w.assign(f"getelementptr {memory}, ptr {place}, i64 {position}")
            w.line(f"store {memory} {unwritten_text(memory)}, ptr {pointer}")
        return place

    def stored(self, buffer: SSAValue, first: str, count: int = 1) -> None:
        """Emit code that records a store of `count` elements starting at position `first`."""
        if buffer not in self._intervals:
            return
        w, (front, back, size) = self._writer, self._intervals[buffer]
        behind = w.assign(f"sub i64 {size - count}, {first}")
        for untouched, now in ((front, first), (back, behind)):
            old = w.assign(f"load i64, ptr {untouched}")
            least = w.call("llvm.smin.i64", "i64", [("i64", old), ("i64", now)])
            w.line(f"store i64 {least}, ptr {untouched}")


def unwritten_text(memory: str) -> str:
    """Return the initial value of new memory: a NaN, or the minimum integer."""
    if is_float_text(memory):
        return float_text(float("nan"), memory)
    return str(-(1 << (8 * BYTES[memory] - 1)))


def _stores_to_few(op: loop.AllocOp, count: int) -> bool:
    """Whether each iteration that allocates a buffer executes fewer stores than the buffer has
    elements.
    """
    if isinstance(op.parent_op(), loop.FuncOp):
        return False
    stores = 0
    for use in op.result.uses:
        user = use.operation
        if isinstance(user, loop.StoreOp):
            stores += lanes_of(user.value.type) * _executions(user, op)
        elif not isinstance(user, loop.LoadOp):
            return False
    return stores < count


def _executions(store: loop.StoreOp, alloc: loop.AllocOp) -> int:
    """Return an upper bound of the executions of a store per allocation, from the trip counts of
    the loops in between.
    """
    trips, parent = 1, store.parent_op()
    while parent is not None and parent is not alloc.parent_op():
        if isinstance(parent, loop.ForOp):
            trips *= parent.trip_count
        parent = parent.parent_op()
    return trips
