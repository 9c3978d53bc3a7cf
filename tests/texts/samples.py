"""Every op of the project's dialects, as used in the lit tests."""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException, ParseError

from fuzz.corpus import lit_cases
from tcopt.definitions import own_dialects
from tcopt.support.errors import TcoptError
from tcopt.support.ir.verify import verify
from tcopt.support.pipelines.running import new_context
from tcopt.tools.passes.driver import InputText, PrintOptions, print_module

_PACKAGE = "tcopt.dialects"


@cache
def own_ops() -> tuple[str, ...]:
    """Return the names of all ops of the project, in a fixed order.

    Schedule steps are excluded: they are recorded, and have their own textual form.
    """
    dialects = [factory() for name, factory in own_dialects().items() if name != "sched"]
    ops = [op for dialect in dialects for op in dialect.operations]
    return tuple(sorted(op.name for op in ops if op.__module__.startswith(_PACKAGE)))


@cache
def _smallest() -> dict[str, str]:
    """Return for each op the text of a valid module that contains it: one function of a lit
    case."""
    found: dict[str, str] = {}
    missing = set(own_ops())
    for text in sorted(lit_cases(), key=len):
        if not any(name in text for name in missing):
            continue
        try:
            module = parse(text)
            verify(module)
        except (ParseError, DiagnosticException, TcoptError):
            continue
        for name in sorted(missing & {op.name for op in module.walk()}):
            found[name] = print_module(_part_with(name, module), PrintOptions(locations=True))
        missing -= found.keys()
    return found


def _part_with(name: str, module: ModuleOp) -> ModuleOp:
    """Return the first function with such an op alone, or the module if that is not valid."""
    part = next(top for top in module.ops if any(op.name == name for op in top.walk()))
    alone = ModuleOp([part.clone()], module.attributes)
    try:
        verify(alone)
    except (DiagnosticException, TcoptError):
        return module
    return alone


def parse(text: str) -> ModuleOp:
    """Return the module of a text."""
    return InputText("text.mlir", text.encode(), "mlir").parse(new_context())


def sample(name: str) -> tuple[ModuleOp, Operation]:
    """Return a valid module, and an op of a name in it."""
    text = _smallest().get(name)
    assert text is not None, f"no lit test has a valid {name}: one is needed to show its text"
    module = parse(text)
    return module, next(op for op in module.walk() if op.name == name)
