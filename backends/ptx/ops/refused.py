"""Ops with a CPU rule that are illegal in a kernel."""

from __future__ import annotations

from xdsl.dialects import func, memref, scf
from xdsl.ir import Operation

from tcopt.backends.ptx.emitter import KernelEmitter
from tcopt.backends.ptx.registry import emits_ptx
from tcopt.dialects.memref_ import PrefetchOp
from tcopt.dialects.profile import ClockOp
from tcopt.dialects.vector_ import GatherOp, ScatterOp
from tcopt.support.errors import UnsupportedError


@emits_ptx(
    func.CallOp,
    memref.AllocOp,
    memref.CopyOp,
    memref.DeallocOp,
    memref.ExtractAlignedPointerAsIndexOp,
    memref.GetGlobalOp,
    scf.ParallelOp,
    ClockOp,
    GatherOp,
    PrefetchOp,
    ScatterOp,
)
def refuse(e: KernelEmitter, op: Operation) -> None:
    """Reject ops that need a host, other threads than the grid's, or several addresses at once."""
    raise UnsupportedError(e.no_rule, op=op)
