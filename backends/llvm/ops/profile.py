"""profile: the POSIX clock."""

from __future__ import annotations

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.backends.llvm.emit.registry import emits
from tcopt.dialects.profile import ClockOp

_MONOTONIC = 1
"""CLOCK_MONOTONIC of Linux."""


@emits(ClockOp)
def emit_clock(e: FunctionEmitter, op: ClockOp) -> None:
    """Call `clock_gettime` with two words on the stack: seconds and nanoseconds."""
    place = e.alloca("i64", 8, 2)
    e.declare("clock_gettime", "i32", ["i32", "ptr"])
    e.write(f"  call i32 @clock_gettime(i32 {_MONOTONIC}, ptr {place})")
    seconds = e.assign(f"load i64, ptr {place}, align 8")
    second = e.assign(f"getelementptr i8, ptr {place}, i64 8")
    nanoseconds = e.assign(f"load i64, ptr {second}, align 8")
    whole = e.assign(f"mul i64 {seconds}, 1000000000")
    e.define_result(op, f"add i64 {whole}, {nanoseconds}")
