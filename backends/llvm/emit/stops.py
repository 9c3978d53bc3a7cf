"""Where code looks whether it is asked to stop.

A variable of each program says so. A function that sees it returns at once, whatever is not
done yet; so does its caller when it is back, up to the entry point, which returns what the
variable holds. Nobody uses what was computed. An allocation that fails sets the variable too.
"""

from __future__ import annotations

from xdsl.ir import Block

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.work import estimated_work
from tcopt.backends.llvm.pool.text import STOP_VARIABLE

_LONG = 20_000
"""Estimated ops, several microseconds: an iteration that takes longer looks each time."""
_SHORT = 256
"""Estimated ops beside which looking costs nothing that could be measured."""
_SHORT_UNKNOWN = 32
"""The same where nothing is known of how often a loop runs."""
_VERY_LONG = 1 << 25
"""Estimated ops of a whole loop, about ten milliseconds."""
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


def stops_inside(e: FunctionEmitter, body: Block, trips: int | None) -> bool:
    """Whether a loop looks in each iteration.

    Args:
        trips: how often it runs; None if that is not known.
    """
    if not e.can_stop:
        return False
    work = e.module.work.get(id(body))
    if work is None:
        work = e.module.work[id(body)] = estimated_work(body.ops, _UNKNOWN_TRIPS)
    if trips is None:
        return work >= _SHORT_UNKNOWN
    return work >= _LONG or (work >= _SHORT and work * trips >= _VERY_LONG)
