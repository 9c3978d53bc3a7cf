"""Programs as settings of a host function, in a textual form for IR attributes and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from io import StringIO
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from tcopt.dialects.accelerator import DIALECT, ProgramOp
from tcopt.dialects.accelerator.instructions import facts_of
from tcopt.dialects.target import TARGET_ATTRIBUTE, AcceleratorFacts
from tcopt.support.errors import InputError
from tcopt.support.ir.origins import node_names
from tcopt.support.locations import nearest_location
from tcopt.support.machines.instruction_places import place_settings
from tcopt.support.registries.registry import all_dialects
from tcopt.support.syntax.parsing import LocatedParser

FUNCTION = "accelerator_run"
"""The host function that runs a program, see `host_functions.py`."""

Settings = Mapping[str, Any]


def settings_of(program: ProgramOp) -> dict[str, Any]:
    """Return a program, its accelerator and the locations of its steps as text."""
    alone = program.clone()
    places = [", ".join(node_names(nearest_location(step))) for step in program.steps]
    facts = facts_of(program)
    assert facts is not None, "its proof has asked"
    alone.attributes[TARGET_ATTRIBUTE] = facts
    stream = StringIO()
    Printer(stream).print_op(ModuleOp([alone]))
    text = {"program": stream.getvalue(), "accelerator": facts.name}
    return {**text, **place_settings(places)}


def program_in(settings: Settings) -> tuple[ProgramOp, AcceleratorFacts]:
    """Return the program and accelerator in settings.

    Raises:
        InputError: there is none.
    """
    return _parsed(str(settings.get("program", "")), str(settings.get("accelerator", "")))


@lru_cache(maxsize=256)
def _parsed(text: str, accelerator: str) -> tuple[ProgramOp, AcceleratorFacts]:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(DIALECT)
    dialect = accelerator.partition(".")[0]
    known = all_dialects()
    if dialect not in known:
        raise InputError(
            f"the accelerator '{accelerator}' is not known",
            hint="load the plugin that describes it",
        )
    context.load_dialect(known[dialect]())
    try:
        module = LocatedParser(context, text, "program").parse_module()
        (program,) = module.ops
        module.verify()
    except (ParseError, VerifyException, ValueError) as error:
        raise InputError(f"this is not a program of an accelerator: {error}") from error
    facts = program.attributes.get(TARGET_ATTRIBUTE)
    if not isinstance(program, ProgramOp) or not isinstance(facts, AcceleratorFacts):
        raise InputError("this is not a program of an accelerator")
    return program, facts
