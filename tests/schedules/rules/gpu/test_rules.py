"""Individual GPU rules."""

from __future__ import annotations

from programs.schedule_programs import matmul
from tcopt.backends.named_gpus import named_gpu
from tcopt.dialects.loop import ForOp
from tcopt.schedules import Schedule
from tcopt.schedules.rules.gpu.facts import gpu_facts
from tcopt.schedules.rules.gpu.fallback import Unfused


def test_loops_are_bound_one_by_one_as_a_last_resort() -> None:
    sch = Schedule(matmul())
    assert Unfused().apply(sch, gpu_facts(named_gpu("opencl"))) is None
    loops = [op for op in sch.func.walk() if isinstance(op, ForOp) and op.axis is not None]
    axes = {op.axis.data.value for op in loops if op.axis is not None}
    assert axes == {"blockIdx.x", "blockIdx.y", "threadIdx.x"}
