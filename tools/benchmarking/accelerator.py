"""Reports and traces of accelerator programs, from a file or called by a model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcopt.backends.accelerator.check import facts_for
from tcopt.backends.accelerator.report import ProgramReport, report_of
from tcopt.backends.accelerator.simulator.trace import trace_events
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.target import AcceleratorFacts
from tcopt.support.errors import InputError
from tcopt.support.files.access import write_output
from tcopt.support.machines.instruction_places import with_nodes
from tcopt.support.pipelines.running import new_context
from tcopt.support.registries.target_registry import find_target
from tcopt.support.syntax.parsing import LocatedParser

if TYPE_CHECKING:
    from tcopt.runtime.profile import TimedKernel
    from tcopt.runtime.program import Program

SUFFIX = ".mlir"
"""Suffix of a file that contains programs instead of a model."""


def reports_in(path: Path, target: str) -> list[ProgramReport]:
    """Return reports of the programs in a file.

    Args:
        target: `--target` of the tool: a machine (`vdla:vta`) for all programs, a kind of
            accelerator for programs that name none, or `cpu`.
    Raises:
        InputError: the file holds no program, or cannot be read.
        UnsupportedError: no accelerator is named.
    """
    kind, machine = find_target(target)
    facts = kind.attribute(machine)
    default = facts if isinstance(facts, AcceleratorFacts) else None
    every = default if machine else None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read it: {error}", where=str(path)) from None
    module = LocatedParser(new_context(), text, str(path)).parse_module()
    found = [
        report_of(program, every or program.facts or default or facts_for(program))
        for program in module.ops
        if isinstance(program, ProgramOp)
    ]
    if not found:
        raise InputError("the file has no accelerator.program", where=str(path))
    return found


def reports_of(program: Program, kernels: Sequence[TimedKernel] = ()) -> Iterator[ProgramReport]:
    """Yield reports of the programs that a compiled model calls.

    Args:
        kernels: the calls of a profile, for a report per call with its own nodes; without them, a
            program shared by several layers is reported once.
    """
    programs = {call.symbol: call for call in program.host_functions}
    first: dict[str, Sequence[str]] = {}
    calls = [(each.kernel, each.origin.nodes) for each in kernels]
    for symbol, nodes in calls or [(symbol, ()) for symbol in programs]:
        call = programs.get(symbol)
        if call is None:
            continue
        # Layers that share a program have their nodes in the same order.
        told = dict(zip(first.setdefault(symbol, nodes), nodes, strict=False))
        report = call.report(with_nodes(call.settings, told))
        if report is not None:
            yield report


def trace_of(reports: Sequence[ProgramReport], first: int = 1) -> list[dict[str, Any]]:
    """Return trace events with a process for each program, numbered from `first`."""
    events: list[dict[str, Any]] = []
    for number, report in enumerate(reports, first):
        for event in trace_events(report.machine, report.tasks, report.timeline):
            if event["name"] == "process_name":
                event["args"] = {"name": report.title}
            if "id" in event:
                event["id"] = f"{number}.{event['id']}"
            events.append({**event, "pid": number})
    return events


def write_traces(path: str, reports: Sequence[ProgramReport]) -> None:
    """Write a Perfetto trace with a process for each program."""
    events = trace_of(reports)
    total = sum(report.cycles for report in reports)
    other = {"cycles": total, "unit": "1 us is one cycle"}
    write_output(path, json.dumps({"traceEvents": events, "otherData": other}))
