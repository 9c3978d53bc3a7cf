"""Rules for `cp.async`: asynchronous copies to shared memory, their groups, and waits."""

from __future__ import annotations

from tcopt.interpreters.ptx import layout
from tcopt.interpreters.ptx.kernel_writer import PtxKernelWriter
from tcopt.interpreters.ptx.registry import executes
from tcopt.interpreters.ptx.text import PtxInstruction


@executes("cp")
def copy(e: PtxKernelWriter, i: PtxInstruction) -> None:
    if not i.has("async") or i.has("bulk") or i.has("mbarrier"):
        e.refuse("only cp.async is supported")
    if i.has("commit_group"):
        _commit(e)
    elif i.has("wait_all"):
        _commit(e)
        _wait(e, i, "0")
    elif i.has("wait_group"):
        _wait(e, i, i.scalar(0))
    else:
        _start(e, i)


def _start(e: PtxKernelWriter, i: PtxInstruction) -> None:
    target, source, size = e.address(i.scalar(0)), e.address(i.scalar(1)), i.scalar(2)
    read = size
    if len(i.operands) > 3:
        read = e.value(f"zext i32 {e.bits(i.scalar(3), 'b32')} to i64")
    arguments = f"i64 {target}, i64 {source}, i64 {size}, i64 {read}, i32 {i.line}"
    e.require(e.value(f"call i1 @ptx.start_copy(ptr %block, ptr %thread, {arguments})"))


def _commit(e: PtxKernelWriter) -> None:
    place = layout.offset(layout.Thread, "group")
    more = e.value(f"add i32 {e.field('%thread', place)}, 1")
    e.set_field("%thread", place, more)


def _wait(e: PtxKernelWriter, i: PtxInstruction, keep: str) -> None:
    arguments = f"ptr %block, ptr %thread, i32 {keep}, i32 {i.line}"
    e.require(e.value(f"call i1 @ptx.end_copies({arguments})"))
