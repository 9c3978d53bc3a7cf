"""Cycle reports of accelerator programs that a compiled model calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tcopt.backends.accelerator import settings as described
from tcopt.backends.accelerator.report import ProgramReport, make_report
from tcopt.backends.vdla import settings as vdla
from tcopt.support.machines.instruction_places import places_in

Settings = Mapping[str, Any]


def report_of_call(
    function: str,
    settings: Settings,
    shapes: Sequence[tuple[int, ...]],
    bits: Sequence[int],
) -> ProgramReport | None:
    """Return the cycle report of a program; None if the call does not run one.

    Args:
        function: the host function that is called, with its settings.
        shapes, bits: shapes of the buffers, and bit widths of their elements.
    """
    if function == vdla.FUNCTION:
        return _of_vdla(settings, shapes, bits)
    if function == described.FUNCTION:
        return _of_described(settings)
    return None


def _of_vdla(
    settings: Settings, shapes: Sequence[tuple[int, ...]], bits: Sequence[int]
) -> ProgramReport:
    from tcopt.backends.vdla.encoding import decode
    from tcopt.backends.vdla.report import report_of

    encoded, target = vdla.program_in(settings, shapes, bits)
    stream = decode(encoded, target)
    if places := places_in(settings):
        pairs = zip(stream.instructions, places, strict=True)
        placed = tuple(replace(each, place=place) for each, place in pairs)
        stream = replace(stream, instructions=placed)
    return report_of(stream, target)


def _of_described(settings: Settings) -> ProgramReport:
    from tcopt.dialects.accelerator import RunOp
    from tcopt.dialects.accelerator.reading import read_program

    program, facts = described.program_in(settings)
    read = read_program(program, facts, places_in(settings))
    matrix = facts.matrix_unit
    name = None if matrix is None or matrix.instructions is None else matrix.instructions.multiply
    runs = [step for step in program.steps if isinstance(step, RunOp) and step.intrin.data == name]
    steps = 0
    for run in runs:
        count = 1
        for extent in run.nest.extents:
            count *= extent
        steps += count
    unit = next((str(run.unit) for run in runs), facts.last_unit)
    products = 0 if matrix is None else steps * matrix.cycles
    return make_report(read.name, read.machine, read.tasks, unit, products)
