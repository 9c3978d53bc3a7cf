"""Programs of an accelerator, alone in a text or called by a model: reports, and a trace of all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcopt.backends.accelerator.simulator.trace import trace_events
from tcopt.backends.vdla.encoding import decode
from tcopt.backends.vdla.machines import named_machine
from tcopt.backends.vdla.report import ProgramReport, report_of
from tcopt.backends.vdla.settings import FUNCTION, program_in
from tcopt.backends.vdla.source import machine_of, programs_of, stream_for
from tcopt.support.errors import InputError
from tcopt.support.files import write_output
from tcopt.support.parsing import LocatedParser
from tcopt.tools.passes.driver import new_context

if TYPE_CHECKING:
    from tcopt.runtime.program import Program

SUFFIX = ".mlir"
"""Of a text that holds programs, and is no model."""


def reports_in(path: Path, machine: str = "") -> list[ProgramReport]:
    """Reports of the programs of a text, for the machine that they name or one by its name.

    Raises:
        InputError: the text holds no program, or cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read it: {error}", where=str(path)) from None
    module = LocatedParser(new_context(), text, str(path)).parse_module()
    target = named_machine(machine) if machine else None
    found = [
        report_of(stream_for(program, target), target or machine_of(program))
        for program in programs_of(module)
    ]
    if not found:
        raise InputError("it holds no vdla.program", where=str(path))
    return found


def reports_of(program: Program) -> Iterator[ProgramReport]:
    """Reports of the programs that a compiled model calls, each once."""
    for call in program.calls:
        if call.function == FUNCTION:
            shapes = [form.shape for form in call.forms]
            bits = [8 * form.dtype.itemsize for form in call.forms]
            encoded, target = program_in(call.settings, shapes, bits)
            yield report_of(decode(encoded, target), target)


def write_traces(path: str, reports: Sequence[ProgramReport]) -> None:
    """Write a Perfetto trace with a process for each program."""
    events: list[dict[str, Any]] = []
    for number, report in enumerate(reports, 1):
        for event in trace_events(report.machine, report.tasks, report.timeline):
            if event["name"] == "process_name":
                event["args"] = {"name": report.name}
            if "id" in event:
                event["id"] = f"{number}.{event['id']}"
            events.append({**event, "pid": number})
    total = sum(report.cycles for report in reports)
    other = {"cycles": total, "unit": "1 us is one cycle"}
    write_output(path, json.dumps({"traceEvents": events, "otherData": other}))
