"""Kernels of a module for a device that runs thread blocks."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from tcopt.passes.kernel.cleanup.effects import effects_of
from tcopt.passes.kernel.lowering.thread_axes import KERNEL


def kernels_of(module: ModuleOp) -> Iterable[FuncOp]:
    """Yield the kernels of a module, in order."""
    return (op for op in module.ops if isinstance(op, FuncOp) and KERNEL in op.attributes)


def is_read_only(buffer: SSAValue) -> bool:
    """Whether a kernel only reads a buffer argument."""
    return all(_only_reads(use.operation) for use in buffer.uses)


def _only_reads(op: Operation) -> bool:
    if op.regions or op.has_trait(IsTerminator) or effects_of(op).writes:
        return False
    return all(is_read_only(v) for v in op.results if isinstance(v.type, MemRefType))
