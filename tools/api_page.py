"""Generator of the API reference for plugin authors, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from tcopt.backends.llvm.emit.emitter import FunctionEmitter
from tcopt.dialects.te import api as te
from tcopt.schedules import Schedule
from tcopt.schedules.analysis.patterns import BlockPattern
from tcopt.schedules.rules.cpu.facts import CpuFacts

_SECTIONS: Mapping[str, tuple[type | ModuleType, ...]] = {
    "Tensor expressions": (te,),
    "Schedules": (Schedule,),
    "Schedule rules": (BlockPattern, CpuFacts),
    "Code generation": (FunctionEmitter,),
}


def api_page(note: str) -> str:
    """Return the page: classes with their public methods, and the functions of modules."""
    parts = ["# API reference", note]
    parts.append("The Python interfaces that operators, schedule rules and emitters use.")
    for title, entries in _SECTIONS.items():
        parts.append(f"## {title}")
        for entry in entries:
            parts.extend(_module(entry) if isinstance(entry, ModuleType) else _class(entry))
    return "\n\n".join(parts) + "\n"


def _module(module: ModuleType) -> Iterator[str]:
    yield f"`from {module.__name__.rpartition('.')[0]} import api as te`"
    yield _text(module)
    for name, value in sorted(vars(module).items()):
        is_public = not name.startswith("_") and name in _public(module)
        if inspect.isfunction(value) and is_public and value.__doc__:
            yield f"### `te.{name}{_signature(value)}`"
            yield _text(value)


def _public(module: ModuleType) -> set[str]:
    """Return the names that a module exports or defines itself."""
    own = {n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__}
    return own | set(vars(module).get("__all__", ()))


def _class(cls: type) -> Iterator[str]:
    yield f"### `{cls.__name__}`"
    yield f"`from {cls.__module__} import {cls.__name__}`"
    yield _text(cls)
    for name, value in sorted(_members(cls).items()):
        signature = "" if isinstance(value, property) else _signature(value)
        yield f"#### `{cls.__name__}.{name}{signature}`"
        yield _text(value)


def _members(cls: type) -> dict[str, Any]:
    """Return public members with a docstring, including those inherited from classes of the
    package.
    """
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("tcopt."):
            continue
        for name, value in vars(base).items():
            if isinstance(value, staticmethod | classmethod):
                value = value.__func__
            is_member = inspect.isfunction(value) or isinstance(value, property)
            if not name.startswith("_") and is_member and value.__doc__:
                found[name] = value
    return found


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    text = str(signature.replace(parameters=parameters))
    # Annotations are strings at run time; quotes of default values are kept.
    return re.sub(r"((?:: |-> ))'([^']*)'", r"\1\2", text)


def _text(value: object) -> str:
    """Return a docstring, with sections such as `Args:` kept as they are."""
    return inspect.getdoc(value) or ""
