"""Attaches remarks to the kernels of a program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tcopt.runtime.whole_program import WholeProgram
from tcopt.schedules.rules.schedule_remarks import SCHEDULED
from tcopt.support.remarks import Remark


def with_remarks(program: WholeProgram, remarks: Iterable[Remark]) -> WholeProgram:
    """Set the remarks of a program, and the schedule rule and slowness of its timed kernels."""
    program.remarks = tuple(remarks)
    rules = {
        remark.subject: remark.by
        for remark in program.remarks
        if not remark.missed and remark.message.startswith(SCHEDULED)
    }
    slow: dict[str, list[str]] = {}
    for remark in program.remarks:
        if remark.slow:
            slow.setdefault(remark.subject, []).append(remark.message)
    if program.timed is not None:
        program.timed = [
            replace(kernel, rule=rules.get(name, ""), slow="; ".join(slow.get(name, ())))
            for kernel in program.timed
            for name in (f"@{kernel.kernel}",)
        ]
    return program
