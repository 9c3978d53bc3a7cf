"""gpu: thread and block indices, and barriers."""

from __future__ import annotations

from xdsl.dialects import gpu

from tcopt.backends.llvm.emit.types import I32
from tcopt.backends.ptx.emitter import KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx

_LETTERS = {gpu.DimensionEnum.X: "x", gpu.DimensionEnum.Y: "y", gpu.DimensionEnum.Z: "z"}
_BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"


def _register(e: KernelEmitter, op: gpu.ThreadIdOp | gpu.BlockIdOp, name: str, bound: int) -> None:
    """Read a special register, whose value is below `bound`."""
    letter = _LETTERS[op.dimension.data]
    intrinsic = f"llvm.nvvm.read.ptx.sreg.{name}.{letter}"
    e.declare(intrinsic, "i32", [])
    value = e.pure(
        intrinsic, len(e.scopes) - 1, lambda: f"call range(i32 0, {bound}) i32 @{intrinsic}()"
    )
    wide = value if e.index_type == I32 else e.assign(f"zext nneg i32 {value} to i64")
    e.define(op.result, wide)


@emits_ptx(gpu.ThreadIdOp)
def emit_thread(e: KernelEmitter, op: gpu.ThreadIdOp) -> None:
    number = list(_LETTERS).index(op.dimension.data)
    _register(e, op, "tid", e.threads[number])


@emits_ptx(gpu.BlockIdOp)
def emit_block(e: KernelEmitter, op: gpu.BlockIdOp) -> None:
    number = list(_LETTERS).index(op.dimension.data)
    _register(e, op, "ctaid", e.grid[number])


@emits_ptx(gpu.BarrierOp)
def emit_barrier(e: KernelEmitter, op: gpu.BarrierOp) -> None:
    e.declare(_BARRIER, "void", ["i32"])
    e.write(f"  call void @{_BARRIER}(i32 0)")
