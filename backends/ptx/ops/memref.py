"""memref: buffers of a block, and of a thread."""

from __future__ import annotations

from xdsl.dialects import memref

from tcopt.backends.llvm.ops.memref import memref_bytes, memref_type
from tcopt.backends.ptx.emitter import SHARED, KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx
from tcopt.passes.kernel.thread_axes import SHARED_SPACE
from tcopt.support.alignment import ALIGNMENT

_THREAD_ALIGNMENT = 16
"""Bytes of the widest access of a thread."""


@emits_ptx(memref.AllocaOp)
def emit_buffer(e: KernelEmitter, op: memref.AllocaOp) -> None:
    """A buffer of the block is a variable of the module, one of the thread is on its stack."""
    type = memref_type(op.memref)
    if type.memory_space != SHARED_SPACE:
        root = e.alloca("i8", _THREAD_ALIGNMENT, memref_bytes(type))
        e.bind_memref(op.memref, root, _THREAD_ALIGNMENT, local=True)
        return
    name = f"{e.name}_shared_{len(e.module.globals)}"
    e.module.globals[name] = (
        f"@{name} = internal addrspace({SHARED}) global "
        f"[{memref_bytes(type)} x i8] poison, align {ALIGNMENT}"
    )
    e.bind_buffer(op.memref, f"@{name}", SHARED, ALIGNMENT)
