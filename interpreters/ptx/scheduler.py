"""Scheduler of the threads of a block, as LLVM IR.

Threads run in order of their numbers, each until it waits or ends. The lanes of a warp resume once
all lanes of their mask have reached the same exchange instruction. A barrier opens once all threads
of the block wait. Different warps may wait at different barrier instructions, but the lanes of one
warp must wait at the same one, unless it is a `barrier.sync` without `.aligned`.
"""

from __future__ import annotations

import ctypes

from tcopt.interpreters.ptx import faults, layout
from tcopt.interpreters.ptx.checks import of_block, of_thread, store
from tcopt.interpreters.ptx.layout import LANES, PtxBlock, PtxFault, Thread

_SIZE = ctypes.sizeof(Thread)
_INBOX = layout.offset(Thread, "inbox")
_SHARED = layout.offset(Thread, "shared")
_STATE = layout.offset(Thread, "state")
_FAULT = layout.offset(PtxBlock, "fault") + layout.offset(PtxFault, "kind")


def _loop(name: str, start: str, end: str, body: str, before: str, after: str) -> str:
    """Return the text of a counted loop.

    Args:
        name: the induction variable; the body ends with branches to `name.next`.
        before: the basic block that the loop is entered from.
        after: the basic block that follows the loop.
    """
    return f"""
  br label %{name}.head
{name}.head:
  %{name} = phi i32 [ {start}, %{before} ], [ %{name}.more, %{name}.next ]
  %{name}.in = icmp ult i32 %{name}, {end}
  br i1 %{name}.in, label %{name}.body, label %{after}
{name}.body:
{body}
{name}.next:
  %{name}.more = add i32 %{name}, 1
  br label %{name}.head
{after}:"""


def _thread(name: str, number: str) -> str:
    return f"""  %{name}.at = mul i32 {number}, {_SIZE}
  %{name} = getelementptr i8, ptr %threads, i32 %{name}.at"""


_START = _loop(
    "s",
    "0",
    "%count",
    f"""{_thread("t", "%s")}
  %t.frame.p = getelementptr i8, ptr %t, i64 {layout.offset(Thread, "frame")}
{store("0", "%t", layout.offset(Thread, "first"), "t.first")}
{store("0", "%t", layout.offset(Thread, "last"), "t.last")}
{store("0", "%t", layout.offset(Thread, "group"), "t.group")}
  %frame = call ptr %kernel(ptr %block, ptr %t)
  store ptr %frame, ptr %t.frame.p
  %s.fault = load i32, ptr %fault.p
  %s.bad = icmp ne i32 %s.fault, 0
  br i1 %s.bad, label %out, label %s.next""",
    "entry",
    "round",
)

_RESUME = _loop(
    "r",
    "%first",
    "%last",
    f"""{_thread("u", "%r")}
{of_thread("u.state", "state", "%u")}
  %u.ready = icmp eq i32 %u.state, {layout.READY}
  br i1 %u.ready, label %resume, label %r.next
resume:
{of_thread("u.frame", "frame", "%u", "ptr")}
  %code = load ptr, ptr %u.frame
  call fastcc void %code(ptr %u.frame)
  %r.fault = load i32, ptr %fault.p
  %r.bad = icmp ne i32 %r.fault, 0
  br i1 %r.bad, label %out, label %r.next""",
    "warp",
    "resumed",
)

_FIND = _loop(
    "f",
    "%first",
    "%last",
    f"""{_thread("m", "%f")}
{of_thread("m.state", "state", "%m")}
  %m.meets = icmp eq i32 %m.state, {layout.AT_MEETING}
  br i1 %m.meets, label %meet, label %f.next""",
    "find",
    "w.next",
)

_MEET = _loop(
    "g",
    "%first",
    "%last",
    f"""{_thread("l", "%g")}
{of_thread("l.state", "state", "%l")}
{of_thread("l.line", "line", "%l")}
{of_thread("l.mask", "mask", "%l")}
  %lane = sub i32 %g, %first
  %l.bit = lshr i32 %m.mask, %lane
  %l.wanted = trunc i32 %l.bit to i1
  %l.meets = icmp eq i32 %l.state, {layout.AT_MEETING}
  %l.same = icmp eq i32 %l.line, %m.line
  %l.here = and i1 %l.meets, %l.same
  %l.done = icmp eq i32 %l.state, {layout.DONE}
  br i1 %l.here, label %here, label %not_here
not_here:
  %l.gone = xor i1 %l.done, true
  %l.missing = and i1 %l.wanted, %l.gone
  br i1 %l.missing, label %divergent, label %g.next
divergent:
  %d.line = zext i32 %l.line to i64
  call i1 @ptx.note(ptr %block, ptr %l, i32 {faults.DIVERGENT}, i32 %m.line, i32 %f, i64 %d.line)
  br label %out
here:
  %l.agrees = icmp eq i32 %l.mask, %m.mask
  %l.fine = and i1 %l.agrees, %l.wanted
  br i1 %l.fine, label %hand, label %disagree
disagree:
  %w.mask = zext i32 %l.mask to i64
  call i1 @ptx.note(ptr %block, ptr %l, i32 {faults.MASKS}, i32 %m.line, i32 %f, i64 %w.mask)
  br label %out
hand:
  %l.inbox = getelementptr i8, ptr %l, i64 {_INBOX}
  %l.shared = getelementptr i8, ptr %l, i64 {_SHARED}
  %words = load [{layout.INBOX_WORDS} x i32], ptr %l.inbox
  store [{layout.INBOX_WORDS} x i32] %words, ptr %l.shared
{store(str(layout.READY), "%l", _STATE, "l.ready")}
  br label %g.next""",
    "meet",
    "again",
)

_WARPS = _loop(
    "w",
    "0",
    "%warps",
    f"""  %first = mul i32 %w, {LANES}
  %end = add i32 %first, {LANES}
  %last = call i32 @llvm.umin.i32(i32 %end, i32 %count)
  br label %warp
warp:
{_RESUME}
  br label %find
find:
{_FIND.replace("w.next:", "").rstrip()}
meet:
{of_thread("m.line", "line", "%m")}
{of_thread("m.mask", "mask", "%m")}
{_MEET}
  br label %warp
""",
    "round",
    "waiting",
)

_LIVE = _loop(
    "c",
    "0",
    "%count",
    f"""{_thread("v", "%c")}
{of_thread("v.state", "state", "%v")}
{of_thread("v.line", "line", "%v")}
  %v.done = icmp eq i32 %v.state, {layout.DONE}
  br i1 %v.done, label %ended, label %waits
ended:
  %ends = load i32, ptr %ended.p
  %ends.more = add i32 %ends, 1
  store i32 %ends.more, ptr %ended.p
  br label %c.next
waits:
  store ptr %v, ptr %waiting.p
  br label %c.next""",
    "counted",
    "decide",
)

_OPEN = _loop(
    "o",
    "0",
    "%count",
    f"""{_thread("b", "%o")}
{of_thread("b.line", "line", "%b")}
{of_thread("b.aligned", "mask", "%b")}
  %b.warp = and i32 %o, -{LANES}
{_thread("h", "%b.warp")}
{of_thread("h.line", "line", "%h")}
  %b.same = icmp eq i32 %b.line, %h.line
  %b.free = icmp eq i32 %b.aligned, 0
  %b.fine = or i1 %b.same, %b.free
{store(str(layout.READY), "%b", _STATE, "b.ready")}
  br i1 %b.fine, label %o.next, label %apart
apart:
  %a.line = zext i32 %h.line to i64
  call i1 @ptx.note(ptr %block, ptr %b, i32 {faults.DIVERGENT}, i32 %b.line, i32 %b.warp, \
i64 %a.line)
  br label %out""",
    "open",
    "opened",
)

_FREE = _loop(
    "e",
    "0",
    "%count",
    f"""{_thread("x", "%e")}
{of_thread("x.frame", "frame", "%x", "ptr")}
  call void @free(ptr %x.frame)
  store ptr null, ptr %x.frame.p
  br label %e.next""",
    "out",
    "freed",
)

SCHEDULER = f"""
declare void @free(ptr)

define void @ptx.run_block(ptr %block, ptr %kernel) {{
entry:
{of_block("count", "count")}
{of_block("threads", "threads", "ptr")}
  %fault.p = getelementptr i8, ptr %block, i64 {_FAULT}
  %ended.p = alloca i32
  %waiting.p = alloca ptr
  %up = add i32 %count, {LANES - 1}
  %warps = lshr i32 %up, 5
{_START}
{_WARPS}
  store i32 0, ptr %ended.p
  br label %counted
counted:
{_LIVE}
  %ended.count = load i32, ptr %ended.p
  %all.ended = icmp eq i32 %ended.count, %count
  br i1 %all.ended, label %out, label %some
some:
  %waiting.thread = load ptr, ptr %waiting.p
{of_thread("barrier.line", "line", "%waiting.thread")}
  %none.ended = icmp eq i32 %ended.count, 0
  br i1 %none.ended, label %open, label %unreached
unreached:
  %u.ended = zext i32 %ended.count to i64
  call i1 @ptx.note(ptr %block, ptr %waiting.thread, i32 {faults.BARRIER}, i32 %barrier.line, \
i32 0, i64 %u.ended)
  br label %out
open:
{_OPEN}
{of_block("epoch", "epoch")}
  %epoch.more = add i32 %epoch, 1
  store i32 %epoch.more, ptr %epoch.p
  br label %round
out:
{_FREE}
  ret void
}}
"""
"""`ptx.run_block(block, kernel)` runs a block until all threads end or one faults."""
