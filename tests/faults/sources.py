"""Faults in the compiler's source: a line of a function is replaced temporarily."""

from __future__ import annotations

import inspect
import io
import textwrap
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from xdsl.parser import Parser

from tcopt.support.errors import MismatchError, ScheduleError
from tcopt.support.pipelines.running import new_context, run_passes
from tcopt.support.pipelines.text import parse_pipeline
from tcopt.tools.execution.exec_check import ExecCheck


@dataclass(frozen=True)
class SourceFault:
    """A fault in a function.

    Attributes:
        title: description of the fault.
        level: graph, te, primitive, loop, kernel, emitter or memory plan.
        module, function: the function; a method is `Class.method`.
        right, wrong: the replaced text of the function, and its replacement.
        culprit: text that the check's message must contain.
        program: the text of the program.
        passes: the pipeline.
    """

    title: str
    level: str
    module: ModuleType
    function: str
    right: str
    wrong: str
    culprit: str
    program: str
    passes: str


def planted_function(fault: SourceFault) -> FunctionType:
    """Return the function that a fault changes."""
    owner: Any = fault.module
    for part in fault.function.split("."):
        owner = getattr(owner, part)
    function = inspect.unwrap(owner)
    assert isinstance(function, FunctionType)
    return function


@contextmanager
def planted(fault: SourceFault) -> Generator[None]:
    """Temporarily change the code of a function, for all that have imported it."""
    function = planted_function(fault)
    source = textwrap.dedent(inspect.getsource(function))
    if fault.right not in source:
        raise LookupError(f"{fault.function} does not contain {fault.right!r}")
    lines = source.replace(fault.right, fault.wrong, 1).splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("def "))
    made: dict[str, Any] = {}
    text = "from __future__ import annotations\n" + "\n".join(lines[first:])
    exec(compile(text, inspect.getfile(function), "exec"), dict(vars(fault.module)), made)
    right, function.__code__ = function.__code__, made[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = right


def message_of(fault: SourceFault) -> str:
    """Return the message of the check; empty if it finds nothing or a schedule step is rejected."""
    context = new_context()
    module = Parser(context, fault.program).parse_module()
    with redirect_stderr(io.StringIO()):
        try:
            run_passes(context, module, parse_pipeline(fault.passes), [ExecCheck()])
        except MismatchError as error:
            return str(error)
        except ScheduleError:
            return ""
    return ""
