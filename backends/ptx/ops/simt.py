"""simt: values handed on within a warp."""

from __future__ import annotations

from tcopt.backends.llvm.types import llvm_type
from tcopt.backends.ptx.emitter import KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx
from tcopt.dialects.simt import ShuffleOp
from tcopt.support.errors import UnsupportedError

_TYPES = {"float": "f32", "i32": "i32"}
_ALL, _WHOLE_WARP = -1, 31


@emits_ptx(ShuffleOp)
def emit_shuffle(e: KernelEmitter, op: ShuffleOp) -> None:
    type = llvm_type(op.value.type)
    if type not in _TYPES:
        raise UnsupportedError(f"threads of a warp exchange 32 bits, not {op.value.type}", op=op)
    arguments = [
        ("i32", str(_ALL)),
        (type, e.value(op.value)),
        ("i32", str(op.distance)),
        ("i32", str(_WHOLE_WARP)),
    ]
    name = f"llvm.nvvm.shfl.sync.bfly.{_TYPES[type]}"
    e.define(op.result, e.call_intrinsic(name, type, arguments))
