"""Cycle report of a VDLA program."""

from __future__ import annotations

from math import ceil

from tcopt.backends.accelerator.report import ProgramReport, make_report
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.dialects.vdla import Unit
from tcopt.dialects.vdla.stream import Gemm, Stream
from tcopt.dialects.vdla.tasks.reading import machine_of, tasks_of

__all__ = ["ProgramReport", "attainable_cycles", "report_of"]


def report_of(stream: Stream, target: VdlaTargetAttr) -> ProgramReport:
    """Simulate a stream and report where its cycles are spent.

    Raises:
        VerificationError: there is a deadlock, or micro-ops are missing.
    """
    tasks, faults = tasks_of(stream, target)
    if faults:
        raise faults[0]
    gemms = [each for each in stream.instructions if isinstance(each, Gemm) and not each.reset]
    products = sum(each.count for each in gemms) * target.gemm_cycles.data
    machine = machine_of(target, stream)
    return make_report(stream.name, machine, tasks, str(Unit.COMPUTE), products)


def attainable_cycles(products: int, moved: int, target: VdlaTargetAttr) -> int:
    """Return a lower bound on cycles, from the number of products and the bytes transferred."""
    port = ceil(moved * target.port_cycles.data / target.port_bytes.data)
    return max(products * target.gemm_cycles.data, port)
