"""The package's own definitions, found by scanning its files.

No central list exists. Registries of lower layers, such as `support`, name no module of an upper
layer: the first time that a registry is read, it asks this scan for the definitions of its kind.
Modules register their definitions when they are imported, or are imported when a definition is
used; their text is scanned first, which takes milliseconds. The rules are

- a pass is a `ModulePass` in a file of `passes`, `schedules`, `frontends` or `backends` with a line
  `name = "kebab-name"`, which must be the file's name with dashes,
- a dialect is a module or package in `dialects` that defines `DIALECT`,
- an output format is a `Target` class in a `targets.py` below `backends`,
- a target kind is registered by a module of `targets`,
- a host function is registered by a module of `support.host.host_functions`, or by a
  `host_functions.py` below `backends`,
- the code of accelerators is registered by a `*code.py` below `backends`,
- a handler of ONNX operators is registered by a module of `frontends.onnx.handlers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tcopt.support.errors import InputError

if TYPE_CHECKING:
    from tcopt.support.registries.registry import DialectFactory, PassFactory, TargetFactory

_ROOT = Path(__file__).parent
_PASS_FOLDERS = ("passes", "schedules", "frontends", "backends")
_NAME_LINE = re.compile(r'^    name(?:: [^=\n]+)? = "([a-z0-9_-]+)"', re.MULTILINE)
_DIALECT_LINE = re.compile(r"^DIALECT\b", re.MULTILINE)


@cache
def own_passes() -> dict[str, PassFactory]:
    """Return factories of the package's own passes by name.

    Raises:
        InputError: two files define passes of the same name.
    """
    modules: dict[str, str] = {}
    for folder in _PASS_FOLDERS:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            name = path.stem.replace("_", "-")
            text = path.read_text(encoding="utf-8")
            if "ModulePass" not in text or name not in _NAME_LINE.findall(text):
                continue
            if name in modules:
                raise InputError(
                    f"pass '{name}' is defined in both {modules[name]} and {_module_name(path)}"
                )
            modules[name] = _module_name(path)
    return {name: _class_factory(module, name) for name, module in modules.items()}


@cache
def own_dialects() -> dict[str, DialectFactory]:
    """Return factories of the package's own dialects by name."""
    factories: dict[str, DialectFactory] = {}
    for path in sorted((_ROOT / "dialects").iterdir()):
        source = path / "__init__.py" if path.is_dir() else path
        if source.suffix != ".py" or not source.is_file() or path.name == "__init__.py":
            continue
        if _DIALECT_LINE.search(source.read_text(encoding="utf-8")):
            module = _module_name(source)
            factories[path.stem.rstrip("_")] = lambda module=module: import_module(module).DIALECT
    return factories


@cache
def own_outputs() -> dict[str, TargetFactory]:
    """Return factories of the package's own output formats by name."""
    return {
        name: _class_factory(_module_name(path), name)
        for path in sorted((_ROOT / "backends").glob("*/targets.py"))
        for name in _NAME_LINE.findall(path.read_text(encoding="utf-8"))
    }


SCANS: Mapping[str, Callable[[], object]] = {
    "pass": own_passes,
    "dialect": own_dialects,
    "form of output": own_outputs,
    "target": lambda: _import("targets/*.py"),
    "host function": lambda: _import(
        "support/host/host_functions/*.py", "backends/*/host_functions.py"
    ),
    "instruction set": lambda: _import("backends/*/*code.py"),
    "handler of operator": lambda: _import("frontends/onnx/handlers/*.py"),
    "answer": lambda: _import("schedules/rules/rule.py"),
}
"""Functions that import or return the definitions of registries, by `Registry.kind`."""


def _import(*patterns: str) -> None:
    """Import all modules whose paths match."""
    for pattern in patterns:
        for path in sorted(_ROOT.glob(pattern)):
            import_module(_module_name(path))


def _module_name(path: Path) -> str:
    parts = path.relative_to(_ROOT).with_suffix("").parts
    return ".".join((_ROOT.name, *(part for part in parts if part != "__init__")))


def _class_factory(module_name: str, name: str) -> Callable[[], type]:
    """Return a function that imports a module and returns its class with a given `name`."""

    def factory() -> type:
        for cls in vars(import_module(module_name)).values():
            own = isinstance(cls, type) and cls.__module__ == module_name
            if own and getattr(cls, "name", None) == name:
                return cls
        raise InputError(f"{module_name} defines nothing of the name '{name}'")

    return factory
