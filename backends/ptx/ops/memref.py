"""memref: allocation of block-shared and thread-private buffers."""

from __future__ import annotations

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType

from tcopt.backends.llvm.emit.literals import address_of
from tcopt.backends.llvm.ops.memref import memref_bytes, memref_type
from tcopt.backends.ptx.emitter import ROLLED, SHARED, KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx
from tcopt.passes.kernel.lowering.thread_axes import SHARED_SPACE
from tcopt.support.machines.alignment import ALIGNMENT

_THREAD_ALIGNMENT = 16
"""Bytes of the widest access of a thread."""


@emits_ptx(memref.AllocaOp)
def emit_buffer(e: KernelEmitter, op: memref.AllocaOp) -> None:
    """Allocate a block-shared buffer as a module variable, or a part of the kernel's dynamic shared
    memory; a thread-private one on the stack.
    """
    type = memref_type(op.memref)
    if type.memory_space != SHARED_SPACE:
        root = e.alloca("i8", _THREAD_ALIGNMENT, memref_bytes(type))
        e.bind_memref(op.memref, root, _THREAD_ALIGNMENT, local=True)
        if not _has_known_places(op):
            # Unrolling would hoist all loads of the loop, which would exceed the registers.
            e.loop_metadata = ROLLED
        return
    size = shared_bytes(op)
    if e.dynamic:
        start = e.assign(
            f"getelementptr i8, ptr addrspace({SHARED}) @{e.dynamic}, i32 {e.dynamic_end}"
        )
        e.dynamic_end += size
        e.bind_buffer(op.memref, start, SHARED, _THREAD_ALIGNMENT)
        return
    name = f"{e.name}_shared_{len(e.module.globals)}"
    e.module.globals[name] = (
        f"@{name} = internal addrspace({SHARED}) global [{size} x i8] poison, align {ALIGNMENT}"
    )
    e.bind_buffer(op.memref, address_of(name), SHARED, ALIGNMENT)


def shared_bytes(op: memref.AllocaOp) -> int:
    """Return the bytes of block-shared memory that a buffer takes; 0 for a thread-private one."""
    type = memref_type(op.memref)
    if type.memory_space != SHARED_SPACE:
        return 0
    # LLVM may load a whole vector at the end of a buffer, so round up its size.
    return -(-memref_bytes(type) // _THREAD_ALIGNMENT) * _THREAD_ALIGNMENT


def _has_known_places(op: memref.AllocaOp) -> bool:
    """Whether all indices into a buffer are constants."""
    for use in op.memref.uses:
        user = use.operation
        indices = [value for value in user.operands if isinstance(value.type, IndexType)]
        if not all(isinstance(value.owner, arith.ConstantOp) for value in indices):
            return False
    return True
