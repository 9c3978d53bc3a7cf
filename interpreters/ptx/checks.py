"""LLVM functions that check memory accesses and lanes, shared by all kernels."""

from __future__ import annotations

from tcopt.interpreters.ptx import faults, layout
from tcopt.interpreters.ptx.layout import PtxBlock, PtxFault, Thread

_THREAD_BITS = 11
"""Bits of the thread's number in an access record; the other bits hold the epoch."""

_MANY = (1 << _THREAD_BITS) - 1
"""Thread number that records reads by several threads."""


def load(name: str, pointer: str, offset: int, type_: str = "i32") -> str:
    """Return the text that loads a field to `%name`, and its pointer to `%name.p`."""
    return (
        f"  %{name}.p = getelementptr i8, ptr {pointer}, i64 {offset}\n"
        f"  %{name} = load {type_}, ptr %{name}.p"
    )


def of_block(name: str, field: str, type_: str = "i32") -> str:
    return load(name, "%block", layout.offset(PtxBlock, field), type_)


def of_thread(name: str, field: str, pointer: str = "%thread", type_: str = "i32") -> str:
    return load(name, pointer, layout.offset(Thread, field), type_)


def store(value: str, pointer: str, offset: int, name: str, type_: str = "i32") -> str:
    return (
        f"  %{name} = getelementptr i8, ptr {pointer}, i64 {offset}\n"
        f"  store {type_} {value}, ptr %{name}"
    )


def _note(name: str) -> str:
    return store(
        f"%{name}",
        "%fault",
        layout.offset(PtxFault, name),
        f"p.{name}",
        _FAULT_TYPES.get(name, "i32"),
    )


_FAULT_TYPES = {"address": "i64"}

_NOTE = f"""
define i1 @ptx.note(ptr %block, ptr %thread, i32 %kind, i32 %line, i32 %other, i64 %address) {{
  %fault = getelementptr i8, ptr %block, i64 {layout.offset(PtxBlock, "fault")}
{of_thread("thread_number", "number")}
{store("%thread_number", "%fault", layout.offset(PtxFault, "thread"), "p.thread")}
{_note("kind")}
{_note("line")}
{_note("other")}
{_note("address")}
  ret i1 false
}}
"""

_RANGES = """
define i1 @ptx.within(ptr %ranges, i64 %count, i64 %address, i64 %size) {
entry:
  %end = add i64 %address, %size
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %none
look:
  %at = getelementptr [2 x i64], ptr %ranges, i64 %i
  %low = load i64, ptr %at
  %high.p = getelementptr i64, ptr %at, i64 1
  %high = load i64, ptr %high.p
  %above = icmp uge i64 %address, %low
  %below = icmp ule i64 %end, %high
  %inside = and i1 %above, %below
  br i1 %inside, label %found, label %again
again:
  %next = add i64 %i, 1
  br label %head
found:
  ret i1 true
none:
  ret i1 false
}
"""

_NOTED = "call i1 @ptx.note(ptr %block, ptr %thread, i32"
_ARGUMENTS = "ptr %block, ptr %thread, i64 %address, i64 %size, i32 %line"


def _checks_of(name: str, more: str, inside: str, kind: int, last: str) -> str:
    """Return a function that checks the alignment and bounds of an access.

    Args:
        more: additional arguments of the function.
        inside: text that computes the bounds check `%inside`.
        kind: fault of an access out of bounds.
        last: text that continues after both checks passed.
    """
    return f"""
define i1 @ptx.check_{name}({_ARGUMENTS}{more}) {{
  %mask = sub i64 %size, 1
  %low = and i64 %address, %mask
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %look, label %misaligned
misaligned:
  %m = {_NOTED} {faults.MISALIGNED}, i32 %line, i32 0, i64 %address)
  ret i1 %m
look:
{inside}
  br i1 %inside, label %ok, label %outside
outside:
  %o = {_NOTED} {kind}, i32 %line, i32 0, i64 %address)
  ret i1 %o
ok:
{last}
}}
"""


def _ranges(pointer: str, count: str) -> str:
    return f"""{of_block("ranges", pointer, "ptr")}
{of_block("count", count, "i64")}
  %inside = call i1 @ptx.within(ptr %ranges, i64 %count, i64 %address, i64 %size)"""


_CHECKS = (
    _checks_of(
        "global", "", _ranges("allocations", "allocation_count"), faults.OUTSIDE, "  ret i1 true"
    )
    + _checks_of(
        "local", ", i1 %in", "  %inside = and i1 %in, true", faults.OUTSIDE_LOCAL, "  ret i1 true"
    )
    + _checks_of(
        "shared",
        ", i1 %is_store, i64 %needed",
        _ranges("variables", "variable_count"),
        faults.OUTSIDE_SHARED,
        f"""{of_block("writers", "writers", "ptr")}
  %unchecked = icmp eq ptr %writers, null
  br i1 %unchecked, label %yes, label %races
yes:
  ret i1 true
races:
{of_block("readers", "readers", "ptr")}
{of_block("epoch", "epoch")}
{of_thread("number", "number")}
  %high = shl i32 %epoch, {_THREAD_BITS}
  %mine = or i32 %high, %number
  br label %head
head:
  %i = phi i64 [ 0, %races ], [ %next, %again ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %ask, label %yes
ask:
  %needed.rest = lshr i64 %needed, %i
  %needed.bit = trunc i64 %needed.rest to i1
  br i1 %needed.bit, label %byte, label %again
byte:
  %at = add i64 %address, %i
  %writer.p = getelementptr i32, ptr %writers, i64 %at
  %writer = load i32, ptr %writer.p
  %reader.p = getelementptr i32, ptr %readers, i64 %at
  %reader = load i32, ptr %reader.p
  %writer.epoch = lshr i32 %writer, {_THREAD_BITS}
  %written = icmp eq i32 %writer.epoch, %epoch
  %writer.other = icmp ne i32 %writer, %mine
  %bad.write = and i1 %written, %writer.other
  br i1 %bad.write, label %after_write, label %look_read
after_write:
  %kind = select i1 %is_store, i32 {faults.WRITE_AFTER_WRITE}, i32 {faults.READ_AFTER_WRITE}
  %writer.thread = and i32 %writer, {_MANY}
  %w = {_NOTED} %kind, i32 %line, i32 %writer.thread, i64 %at)
  ret i1 %w
look_read:
  %reader.epoch = lshr i32 %reader, {_THREAD_BITS}
  %read = icmp eq i32 %reader.epoch, %epoch
  %reader.other = icmp ne i32 %reader, %mine
  %other.read = and i1 %read, %reader.other
  br i1 %is_store, label %write, label %note_read
write:
  br i1 %other.read, label %after_read, label %note_write
after_read:
  %reader.thread = and i32 %reader, {_MANY}
  %r = {_NOTED} {faults.WRITE_AFTER_READ}, i32 %line, i32 %reader.thread, i64 %at)
  ret i1 %r
note_write:
  store i32 %mine, ptr %writer.p
  br label %again
note_read:
  %many = or i32 %high, {_MANY}
  %as = select i1 %other.read, i32 %many, i32 %mine
  store i32 %as, ptr %reader.p
  br label %again
again:
  %next = add i64 %i, 1
  br label %head""",
    )
    + f"""
define i1 @ptx.check_lane(ptr %block, ptr %thread, i32 %line, i32 %source, i1 %is_there) {{
  br i1 %is_there, label %yes, label %no
yes:
  ret i1 true
no:
  %wide = zext i32 %source to i64
  %n = {_NOTED} {faults.LANE}, i32 %line, i32 %source, i64 %wide)
  ret i1 %n
}}
"""
)

CHECKS = _NOTE + _RANGES + _CHECKS
"""Check functions that kernels call."""

DECLARATIONS = f"""
declare i1 @ptx.check_global({_ARGUMENTS})
declare i1 @ptx.check_local({_ARGUMENTS}, i1)
declare i1 @ptx.check_shared({_ARGUMENTS}, i1, i64)
declare i1 @ptx.check_lane(ptr, ptr, i32, i32, i1)
declare ptr @malloc(i64)
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare void @llvm.coro.end(ptr, i1, token)
"""
"""Declarations of functions that kernels call; LLVM declares arithmetic intrinsics on use."""
