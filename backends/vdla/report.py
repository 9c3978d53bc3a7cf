"""Where the cycles of a program of the VDLA go."""

from __future__ import annotations

from math import ceil

from tcopt.backends.accelerator.report import ProgramReport, make_report
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import Unit
from tcopt.dialects.vdla.stream import Gemm, Stream
from tcopt.dialects.vdla.tasks.reading import machine_of, tasks_of

__all__ = ["ProgramReport", "attainable_cycles", "report_of"]


def report_of(stream: Stream, target: VdlaTargetAttr) -> ProgramReport:
    """Simulate a stream and say where its cycles go.

    Raises:
        VerificationError: units wait for each other forever, or micro-ops are not there.
    """
    tasks, faults = tasks_of(stream, target)
    if faults:
        raise faults[0]
    gemms = [each for each in stream.instructions if isinstance(each, Gemm) and not each.reset]
    products = sum(each.count for each in gemms) * target.gemm_cycles.data
    machine = machine_of(target, stream)
    return make_report(stream.name, machine, tasks, str(Unit.COMPUTE), products)


def attainable_cycles(products: int, moved: int, target: VdlaTargetAttr) -> int:
    """Cycles that products and the bytes moved take at least, whichever takes longer."""
    port = ceil(moved * target.port_cycles.data / target.port_bytes.data)
    return max(products * target.gemm_cycles.data, port)
