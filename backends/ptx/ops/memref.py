"""memref: buffers of a block, and of a thread."""

from __future__ import annotations

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType

from tcopt.backends.llvm.emit.literals import address_of
from tcopt.backends.llvm.ops.memref import memref_bytes, memref_type
from tcopt.backends.ptx.emitter import ROLLED, SHARED, KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx
from tcopt.passes.kernel.lowering.thread_axes import SHARED_SPACE
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
        if not _has_known_places(op):
            # Unrolled, their loads go ahead of everything else, and registers do not hold them.
            e.loop_metadata = ROLLED
        return
    name = f"{e.name}_shared_{len(e.module.globals)}"
    # LLVM may load a whole vector where the last elements of a buffer are part of one.
    size = -(-memref_bytes(type) // _THREAD_ALIGNMENT) * _THREAD_ALIGNMENT
    e.module.globals[name] = (
        f"@{name} = internal addrspace({SHARED}) global [{size} x i8] poison, align {ALIGNMENT}"
    )
    e.bind_buffer(op.memref, address_of(name), SHARED, ALIGNMENT)


def _has_known_places(op: memref.AllocaOp) -> bool:
    """Whether all indices of a buffer are constants."""
    for use in op.memref.uses:
        user = use.operation
        indices = [value for value in user.operands if isinstance(value.type, IndexType)]
        if not all(isinstance(value.owner, arith.ConstantOp) for value in indices):
            return False
    return True
