"""Kernels of a module for a device that runs thread blocks."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator, MemoryEffectKind, get_effects

from tcopt.passes.kernel.cleanup.effects import effects_of
from tcopt.passes.kernel.lowering.thread_axes import KERNEL

_READS = (MemoryEffectKind.READ, MemoryEffectKind.ALLOC)


def kernels_of(module: ModuleOp) -> Iterable[FuncOp]:
    """Yield the kernels of a module, in order."""
    return (op for op in module.ops if isinstance(op, FuncOp) and KERNEL in op.attributes)


def is_read_only(buffer: SSAValue) -> bool:
    """Whether a kernel only reads a buffer argument."""
    return all(_only_reads(use.operation, buffer) for use in buffer.uses)


def _only_reads(op: Operation, buffer: SSAValue) -> bool:
    if op.regions or op.has_trait(IsTerminator):
        return False
    if effects_of(op).writes:
        # An op may write another buffer.
        written = [each.value for each in get_effects(op) or () if each.kind not in _READS]
        return bool(written) and not any(each is None or each is buffer for each in written)
    return all(is_read_only(v) for v in op.results if isinstance(v.type, MemRefType))
