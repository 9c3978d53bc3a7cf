"""LLVM functions for asynchronous copies to shared memory.

A copy overwrites its target with 0xFF when it starts, which reads as NaN, and writes the data when
the thread waits for its group. Both count as writes of the thread at that time, so that a barrier
that is missing before the copy or after the wait is a race, and a missing wait is unwritten data.
"""

from __future__ import annotations

import ctypes

from tcopt.interpreters.ptx import faults, layout
from tcopt.interpreters.ptx.checks import load, of_block, of_thread
from tcopt.interpreters.ptx.layout import COPIES, AsyncCopy

_SIZE = ctypes.sizeof(AsyncCopy)
_FIELDS = ("target", "source", "size", "read", "group")


def _entry(number: str) -> str:
    """Return the text that computes the pointer `%slot` to a copy of the thread's ring."""
    return f"""{of_thread("copies", "copies", "%thread", "ptr")}
  %place = urem i32 {number}, {COPIES}
  %slot.at = mul i32 %place, {_SIZE}
  %slot = getelementptr i8, ptr %copies, i32 %slot.at"""


def _put(name: str, type_: str) -> str:
    return (
        f"  %e.{name} = getelementptr i8, ptr %slot, i64 {layout.offset(AsyncCopy, name)}\n"
        f"  store {type_} %{name}, ptr %e.{name}"
    )


def _get(name: str, type_: str) -> str:
    return load(name, "%slot", layout.offset(AsyncCopy, name), type_)


_TYPES = dict.fromkeys(_FIELDS, "i64") | {"group": "i32"}
_CHECKED = "ptr %block, ptr %thread, i64 %target, i64 %size, i32 %line, i1 true, i64 -1"

START_COPY = f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define i1 @ptx.start_copy(ptr %block, ptr %thread, i64 %target, i64 %source, i64 %size, i64 %read, \
i32 %line) {{
  %fits = call i1 @ptx.check_shared({_CHECKED})
  br i1 %fits, label %look, label %bad
look:
  %reads = icmp ne i64 %read, 0
  br i1 %reads, label %check, label %start
check:
  %known = call i1 @ptx.check_global(ptr %block, ptr %thread, i64 %source, i64 %size, i32 %line)
  br i1 %known, label %start, label %bad
start:
{of_thread("first", "first")}
{of_thread("last", "last")}
{of_thread("group", "group")}
  %count = sub i32 %last, %first
  %room = icmp ult i32 %count, {COPIES}
  br i1 %room, label %add, label %full
full:
  call i1 @ptx.note(ptr %block, ptr %thread, i32 {faults.COPIES}, i32 %line, i32 0, i64 {COPIES})
  br label %bad
add:
{of_block("shared", "shared", "ptr")}
  %to = getelementptr i8, ptr %shared, i64 %target
  call void @llvm.memset.p0.i64(ptr %to, i8 -1, i64 %size, i1 false)
{_entry("%last")}
{chr(10).join(_put(name, _TYPES[name]) for name in _FIELDS)}
  %more = add i32 %last, 1
  store i32 %more, ptr %last.p
  ret i1 true
bad:
  ret i1 false
}}
"""
"""`ptx.start_copy(block, thread, target, source, size, read, line)`."""

END_COPIES = f"""
define i1 @ptx.end_copies(ptr %block, ptr %thread, i32 %keep, i32 %line) {{
entry:
{of_thread("done", "group")}
  %below = sub i32 %done, %keep
{of_block("shared", "shared", "ptr")}
  br label %head
head:
{of_thread("first", "first")}
{of_thread("last", "last")}
  %some = icmp ne i32 %first, %last
  br i1 %some, label %look, label %yes
look:
{_entry("%first")}
{chr(10).join(_get(name, _TYPES[name]) for name in _FIELDS)}
  %is.old = icmp slt i32 %group, %below
  br i1 %is.old, label %check, label %yes
check:
  %fits = call i1 @ptx.check_shared({_CHECKED})
  br i1 %fits, label %copy, label %no
copy:
  %to = getelementptr i8, ptr %shared, i64 %target
  %from = inttoptr i64 %source to ptr
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %size, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %read, i1 false)
  %more = add i32 %first, 1
  store i32 %more, ptr %first.p
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}}
"""
"""`ptx.end_copies(block, thread, keep, line)` completes all but the last `keep` groups."""

COPY_FUNCTIONS = START_COPY + END_COPIES

COPY_DECLARATIONS = """
declare i1 @ptx.start_copy(ptr, ptr, i64, i64, i64, i64, i32)
declare i1 @ptx.end_copies(ptr, ptr, i32, i32)
"""
