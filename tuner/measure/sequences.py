"""Schedules as text."""

from __future__ import annotations

from xdsl.utils.exceptions import ParseError

from tcopt.compiler.passes import shared_context
from tcopt.dialects.sched import SequenceOp
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
