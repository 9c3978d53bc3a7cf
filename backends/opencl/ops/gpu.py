"""gpu: thread and block indices, and barriers."""

from __future__ import annotations

from xdsl.dialects import gpu

from tcopt.backends.opencl.emit.registry import writes
from tcopt.backends.opencl.emit.writer import OpenClWriter
from tcopt.dialects.loop.memory import FENCE

_DIMENSIONS = {gpu.DimensionEnum.X: 0, gpu.DimensionEnum.Y: 1, gpu.DimensionEnum.Z: 2}


def _number(op: gpu.ThreadIdOp | gpu.BlockIdOp) -> int:
    return _DIMENSIONS[op.dimension.data]


@writes(gpu.ThreadIdOp)
def write_thread(k: OpenClWriter, op: gpu.ThreadIdOp) -> None:
    if op.result.uses:
        k.assign(op.result, f"get_local_id({_number(op)})", default="thread")


@writes(gpu.BlockIdOp)
def write_block(k: OpenClWriter, op: gpu.BlockIdOp) -> None:
    if op.result.uses:
        k.assign(op.result, f"get_group_id({_number(op)})", default="block")


@writes(gpu.BarrierOp)
def write_barrier(k: OpenClWriter, op: gpu.BarrierOp) -> None:
    fences = "CLK_LOCAL_MEM_FENCE"
    if FENCE in op.attributes:
        fences += " | CLK_GLOBAL_MEM_FENCE"
    k.line(f"barrier({fences});")
