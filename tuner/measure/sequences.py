"""Schedules as text: parsing and legality checks."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError, VerifyException

from tcopt.compiler.passes import run_passes, shared_context
from tcopt.dialects import loop
from tcopt.dialects.sched import SequenceOp
from tcopt.schedules.api.apply import apply_sequence
from tcopt.support.errors import InputError
from tcopt.support.syntax.parsing import LocatedParser


def parse_sequence(text: str) -> SequenceOp:
    """Parse a schedule.

    Raises:
        InputError: the text is not a schedule.
    """
    module = _parsed(text, "a schedule")
    found = [op for op in module.ops if isinstance(op, SequenceOp)]
    if len(found) != 1:
        raise InputError("a schedule must be one sched.sequence")
    found[0].detach()
    return found[0]


def _parsed(text: str, subject: str) -> ModuleOp:
    try:
        module = LocatedParser(shared_context(), text, subject).parse_module()
        module.verify()
    except ParseError as error:
        raise InputError(f"{subject} does not parse: {error.msg.strip()}") from error
    except VerifyException as error:
        raise InputError(f"{subject} is not valid: {' '.join(str(error).split())}") from error
    return module


def check_applies(te_text: str, sequence: str) -> None:
    """Check that the steps of a schedule apply to a workload.

    Raises:
        InputError: it does not parse.
        ScheduleError: a step's precondition does not hold.
    """
    module = _parsed(te_text, "a workload")
    run_passes(module, "lower-te-to-loop")
    functions = [op for op in module.ops if isinstance(op, loop.FuncOp)]
    if len(functions) != 1:
        raise InputError("the text of a workload must be one te.func")
    apply_sequence(parse_sequence(sequence), functions[0])
