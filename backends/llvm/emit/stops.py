"""Checks for requests to stop early.

Each program has a stop variable. A function that finds it set returns at once; so do its callers,
up to the entry point, which returns the value of the variable. The results are then unspecified. A
failed allocation also sets the variable.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import Attribute, Block

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.work import estimated_work
from tcopt.backends.llvm.pool.text import STOP_VARIABLE

_LONG = 20_000
"""Estimated ops (several microseconds) from which an iteration always checks."""
_SHORT = 256
"""Estimated ops of an iteration from which the cost of a check is not measurable."""
_SHORT_UNKNOWN = 32
"""The same limit for a loop with an unknown trip count."""
_VERY_LONG = 1 << 25
"""Estimated ops from which a whole loop checks, about ten milliseconds."""
_INTERVAL = 1 << 22
"""Estimated ops between two checks of a loop with short iterations."""
_UNKNOWN_TRIPS = 1 << 12


def check_stop(e: FunctionEmitter) -> None:
    """Emit a check that returns early if a stop is requested."""
    if not e.can_stop:
        return
    _declare(e)
    asked = e.assign(f"load atomic i32, ptr @{STOP_VARIABLE} monotonic, align 4")
    stop, on = e.assign(f"icmp ne i32 {asked}, 0"), e.label("on")
    e.write(f"  br i1 {stop}, label %{e.stop_label()}, label %{on}, !prof !3")
    e.start_block(on)


def check_allocated(e: FunctionEmitter, pointer: str, size: int) -> None:
    """Emit a check that returns early and requests a stop if an allocation failed.

    Args:
        size: the size of the allocation in bytes.
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
    """Return the number of iterations between checks of a loop; None if it never checks.

    Args:
        trips: the trip count of the loop; None if unknown.
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
    """Return the size of the function's largest buffer, a typical bound on unknown trip counts."""
    function = body.parent_op()
    while function is not None and not isinstance(function, func.FuncOp):
        function = function.parent_op()
    if function is None:
        return 0
    largest = e.module.work.get(id(function))
    if largest is None:
        results = [result for op in function.walk() for result in op.results]
        types = [value.type for value in (*function.args, *results)]
        sizes = [_elements(type) for type in types if isinstance(type, MemRefType)]
        largest = e.module.work[id(function)] = max(sizes, default=0)
    return largest


def _elements(type: MemRefType[Attribute]) -> int:
    """Return the number of elements of a buffer, with an estimate for dynamic extents."""
    return prod(_UNKNOWN_TRIPS if e == DYNAMIC_INDEX else e for e in type.get_shape())
