"""Where code checks whether it is to stop.

A variable of each program is set for that. A function that sees it returns at once, whatever is not
done yet; so does its caller, up to the entry point, which returns the value of the variable. The
results are not used. An allocation that fails sets the variable, too.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.work import estimated_work
from tcopt.backends.llvm.pool.text import STOP_VARIABLE

_LONG = 20_000
"""Estimated ops, several microseconds: a longer iteration checks each time."""
_SHORT = 256
"""Estimated ops of an iteration from which on the cost of a check cannot be measured."""
_SHORT_UNKNOWN = 32
"""The same for a loop whose trip count is not known."""
_VERY_LONG = 1 << 25
"""Estimated ops of a whole loop, about ten milliseconds."""
_INTERVAL = 1 << 22
"""Estimated ops between two checks of a loop of short iterations."""
_UNKNOWN_TRIPS = 1 << 12


def check_stop(e: FunctionEmitter) -> None:
    """Return here if the run is to end."""
    if not e.can_stop:
        return
    _declare(e)
    asked = e.assign(f"load atomic i32, ptr @{STOP_VARIABLE} monotonic, align 4")
    stop, on = e.assign(f"icmp ne i32 {asked}, 0"), e.label("on")
    e.write(f"  br i1 {stop}, label %{e.stop_label()}, label %{on}, !prof !3")
    e.start_block(on)


def check_allocated(e: FunctionEmitter, pointer: str, size: int) -> None:
    """Return here if an allocation failed, and let the run end for it.

    Args:
        size: of the allocation, in bytes.
    """
    _declare(e)
    lacks, on = e.assign(f"icmp eq ptr {pointer}, null"), e.label("on")
    lack = e.label("lack")
    e.write(f"  br i1 {lacks}, label %{lack}, label %{on}, !prof !3")
    amount = -min(-(-size // 1024), 2**31 - 1)
    e.tail += [
        f"{lack}:",
        f"  store atomic i32 {amount}, ptr @{STOP_VARIABLE} monotonic, align 4",
        f"  br label %{e.stop_label()}",
    ]
    e.start_block(on)


def _declare(e: FunctionEmitter) -> None:
    e.module.globals[STOP_VARIABLE] = f"@{STOP_VARIABLE} = external global i32"


def stop_interval(e: FunctionEmitter, body: Block, trips: int | None) -> int | None:
    """Return after how many iterations a loop checks for a stop; None if it never does.

    Args:
        trips: the trip count of the loop; None if it is not known.
    """
    if not e.can_stop:
        return None
    work = max(1, _work_of(e, body))
    if work >= (_SHORT_UNKNOWN if trips is None else _LONG):
        return 1
    most = _largest_buffer(e, body) if trips is None else trips
    if work * most < _VERY_LONG:
        return None
    return 1 if work >= _SHORT else max(1, _INTERVAL // work)


def _work_of(e: FunctionEmitter, body: Block) -> int:
    work = e.module.work.get(id(body))
    if work is None:
        work = e.module.work[id(body)] = estimated_work(body.ops, _UNKNOWN_TRIPS)
    return work


def _largest_buffer(e: FunctionEmitter, body: Block) -> int:
    """Elements of the largest buffer of the function, which loops seldom exceed."""
    function = body.parent_op()
    while function is not None and not isinstance(function, func.FuncOp):
        function = function.parent_op()
    if function is None:
        return 0
    largest = e.module.work.get(id(function))
    if largest is None:
        results = [result for op in function.walk() for result in op.results]
        types = [value.type for value in (*function.args, *results)]
        sizes = [prod(type.get_shape()) for type in types if isinstance(type, MemRefType)]
        largest = e.module.work[id(function)] = max(sizes, default=0)
    return largest
