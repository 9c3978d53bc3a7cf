"""Schedules as text."""

from __future__ import annotations

from xdsl.utils.exceptions import ParseError

from tcopt.compiler.passes import run_passes, shared_context
from tcopt.dialects import loop
from tcopt.dialects.sched import SequenceOp
from tcopt.schedules.api.apply import apply_sequence
from tcopt.support.errors import InputError
from tcopt.support.parsing import TextParser


def parse_sequence(text: str) -> SequenceOp:
    """A schedule from its text.

    Raises:
        InputError: it is none.
    """
    try:
        module = TextParser(shared_context(), text).parse_module()
    except ParseError as error:
        raise InputError(f"a schedule does not parse: {error.msg.strip()}") from error
    found = [op for op in module.ops if isinstance(op, SequenceOp)]
    if len(found) != 1:
        raise InputError("a schedule is one sched.sequence")
    found[0].detach()
    return found[0]


def check_applies(te_text: str, sequence: str) -> None:
    """Refuse a schedule whose steps do not apply to a workload.

    Raises:
        InputError: it does not parse.
        ScheduleError: a step's precondition does not hold.
    """
    module = TextParser(shared_context(), te_text).parse_module()
    run_passes(module, "lower-te-to-loop")
    functions = [op for op in module.ops if isinstance(op, loop.FuncOp)]
    if len(functions) != 1:
        raise InputError("the text of a workload is one te.func")
    apply_sequence(parse_sequence(sequence), functions[0])
