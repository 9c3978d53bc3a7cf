"""simt: asynchronous copies to shared memory become `cp.async`."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.utils.hints import isa

from tcopt.backends.llvm.emit.types import LlvmType, byte_size, pointer_in
from tcopt.backends.llvm.ops.memref import load, store
from tcopt.backends.ptx.emitter import GLOBAL, SHARED, KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx
from tcopt.dialects.simt_copies import CommitCopiesOp, CopyAsyncOp, WaitCopiesOp
from tcopt.support.errors import UnsupportedError

_CACHED = {4: "ca", 8: "ca", 16: "cg"}
"""Caches of a copy by its size in bytes: copies of 16 bytes bypass L1."""

_COPY = "llvm.nvvm.cp.async"


@emits_ptx(CopyAsyncOp)
def emit_copy(e: KernelEmitter, op: CopyAsyncOp) -> None:
    """Emit a copy, which stores zeros for the bytes that it does not read.

    Copies that are not aligned become loads and stores.
    """
    type_ = op.source.type
    assert isa(type_, MemRefType)
    size = op.elements * byte_size(type_.get_element_type())
    source, from_ = e.address(op.source, op.source_indices)
    target, to = e.address(op.target, op.target_indices)
    spaces = [e.pointer_type(pointer) for pointer in (target, source)]
    if spaces != [pointer_in(SHARED), pointer_in(GLOBAL)]:
        raise UnsupportedError("an asynchronous copy is not from global to shared memory", op=op)
    if size not in _CACHED or min(from_, to) % size:
        _copy_now(e, op, (source, from_), (target, to))
        return
    name = f"{_COPY}.{_CACHED[size]}.shared.global.{size}"
    arguments: list[tuple[LlvmType | str, str]] = [(spaces[0], target), (spaces[1], source)]
    if op.inside is not None:
        read = e.assign(f"select i1 {e.value(op.inside)}, i32 {size}, i32 0")
        name += ".s"
        arguments.append(("i32", read))
    _call(e, name, arguments)


def _copy_now(
    e: KernelEmitter, op: CopyAsyncOp, source: tuple[str, int], target: tuple[str, int]
) -> None:
    """Emit a load and a store; if the condition is false, the load reads the buffer's start."""
    assert isa(op.source.type, MemRefType)
    type = VectorType(op.source.type.get_element_type(), [op.elements])
    pointer, alignment = source
    if op.inside is None:
        store(e, type, load(e, type, pointer, alignment), *target)
        return
    space, condition = e.pointer_type(pointer), e.value(op.inside)
    root = e.buffer(op.source).root
    chosen = e.assign(f"select i1 {condition}, {space} {pointer}, {space} {root}")
    e.set_space(chosen, GLOBAL)
    value = load(e, type, chosen, alignment)
    text = e.type(type)
    value = e.assign(f"select i1 {condition}, {text} {value}, {text} zeroinitializer")
    store(e, type, value, *target)


@emits_ptx(CommitCopiesOp)
def emit_commit(e: KernelEmitter, op: CommitCopiesOp) -> None:
    _call(e, f"{_COPY}.commit.group", [])


@emits_ptx(WaitCopiesOp)
def emit_wait(e: KernelEmitter, op: WaitCopiesOp) -> None:
    _call(e, f"{_COPY}.wait.group", [("i32", str(op.groups))])


def _call(e: KernelEmitter, name: str, arguments: list[tuple[LlvmType | str, str]]) -> None:
    e.declare(name, "void", [type for type, _ in arguments])
    given = ", ".join(f"{type} {value}" for type, value in arguments)
    e.write(f"  call void @{name}({given})")
