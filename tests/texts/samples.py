"""Every op of this project's dialects, as the lit tests use it."""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException, ParseError

from fuzz.corpus import lit_cases
from tcopt.support.errors import TcoptError
from tcopt.support.registry import own_dialects
from tcopt.support.verify import verify
from tcopt.tools.passes.driver import Source, new_context

_PACKAGE = "tcopt.dialects"


@cache
def own_ops() -> tuple[str, ...]:
    """The names of all ops that this project defines, in a fixed order.

    Steps of schedules are left out: they are recorded, and have texts of their own.
    """
    dialects = [factory() for name, factory in own_dialects().items() if name != "sched"]
    ops = [op for dialect in dialects for op in dialect.operations]
    return tuple(sorted(op.name for op in ops if op.__module__.startswith(_PACKAGE)))


@cache
def _smallest() -> dict[str, str]:
    """For each op the shortest text of a valid module that holds it."""
    found: dict[str, str] = {}
    for text in lit_cases():
        try:
            module = parse(text)
            verify(module)
        except (ParseError, DiagnosticException, TcoptError):
            continue
        for name in {op.name for op in module.walk()}:
            if len(text) < len(found.get(name, text + " ")):
                found[name] = text
    return found


def parse(text: str) -> ModuleOp:
    """The module of a text."""
    return Source("text.mlir", text.encode(), "mlir").parse(new_context())


def sample(name: str) -> tuple[ModuleOp, Operation]:
    """A valid module, and an op of a name in it."""
    text = _smallest().get(name)
    assert text is not None, f"no lit test has a valid {name}: one is needed to show its text"
    module = parse(text)
    return module, next(op for op in module.walk() if op.name == name)
