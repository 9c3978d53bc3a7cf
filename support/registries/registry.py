"""Discovery of passes, dialects and output formats from the files that define them.

There is no central list: definitions are found by scanning the text of the files that may contain
one, which takes milliseconds. A module is imported only when its definition is used. The rules are

- a pass is a `ModulePass` in a file of `passes`, `schedules`, `frontends` or `backends` with a line
  `name = "kebab-name"`, which must be the file's name with dashes,
- a dialect is a module or package in `dialects` that defines `DIALECT`,
- an output format is a `Target` class in a `targets.py` below `backends`.

xDSL's own definitions are included. The package's definitions override those of the same name, and
registered definitions override both.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from xdsl.ir import Attribute, Dialect, Operation
from xdsl.passes import ModulePass
from xdsl.utils.target import Target

from tcopt.support.errors import InputError
from tcopt.support.registries.registration import Registry

PassFactory = Callable[[], type[ModulePass]]
DialectFactory = Callable[[], Dialect]
TargetFactory = Callable[[], type[Target]]

_PACKAGE = "tcopt"
_ROOT = Path(__file__).parent.parent.parent
_PASS_FOLDERS = ("passes", "schedules", "frontends", "backends")
_NAME_LINE = re.compile(r'^    name(?:: [^=\n]+)? = "([a-z0-9_-]+)"', re.MULTILINE)
_DIALECT_LINE = re.compile(r"^DIALECT\b", re.MULTILINE)


def import_all(name: str) -> tuple[ModuleType, ...]:
    """Import a module, and all modules below it if it is a package, so that decorators run.

    Args:
        name: full name, such as `tcopt.schedules.rules.cpu`.
    Returns:
        The modules below it, in the order of their names.
    """
    paths = getattr(importlib.import_module(name), "__path__", ())
    found = pkgutil.walk_packages(paths, name + ".")
    return tuple(importlib.import_module(each) for each in sorted(info.name for info in found))


def all_passes() -> dict[str, PassFactory]:
    """Return factories of all passes by name; the package's override xDSL's."""
    from xdsl.transforms import get_all_passes

    return {**get_all_passes(), **PASSES}


def all_dialects() -> dict[str, DialectFactory]:
    """Return factories of all dialects by name; the package's override xDSL's."""
    from xdsl.dialects import get_all_dialects

    return {**get_all_dialects(), **DIALECTS}


def all_targets() -> dict[str, TargetFactory]:
    """Return factories of all output formats by name; the package's override xDSL's."""
    from xdsl.targets import get_all_targets

    return {**get_all_targets(), **OUTPUTS}


@cache
def own_passes() -> dict[str, PassFactory]:
    """Return factories of the package's own passes by name.

    Raises:
        InputError: two files define passes of the same name.
    """
    modules: dict[str, str] = {}
    for folder in _PASS_FOLDERS:
        for path in _python_files(_ROOT / folder):
            name = path.stem.replace("_", "-")
            text = path.read_text(encoding="utf-8")
            if "ModulePass" not in text or name not in _NAME_LINE.findall(text):
                continue
            if name in modules:
                raise InputError(
                    f"pass '{name}' is defined in both {modules[name]} and {_module_name(path)}"
                )
            modules[name] = _module_name(path)
    return {name: _pass_factory(module, name) for name, module in modules.items()}


@cache
def own_dialects() -> dict[str, DialectFactory]:
    """Return factories of the package's own dialects by name."""
    factories: dict[str, DialectFactory] = {}
    for path in sorted((_ROOT / "dialects").iterdir()):
        source = path / "__init__.py" if path.is_dir() else path
        if source.suffix != ".py" or not source.is_file() or path.name == "__init__.py":
            continue
        if _DIALECT_LINE.search(source.read_text(encoding="utf-8")):
            name = path.stem.rstrip("_")
            factories[name] = _dialect_factory(_module_name(source))
    return factories


def register_pass(cls: type[ModulePass]) -> type[ModulePass]:
    """Register a pass by its name, overriding a pass of the package; a decorator.

    Raises:
        InputError: another registered pass has the name.
    """
    PASSES.add(cls.name, lambda: cls, by=cls)
    return cls


def register_dialect(dialect: Dialect) -> Dialect:
    """Register a dialect by its name, overriding a dialect of the package.

    Raises:
        InputError: another registered dialect has the name.
    """
    DIALECTS.add(dialect.name, lambda: dialect, by=dialect)
    return dialect


def register_definitions(definitions: Iterable[type[Operation] | type[Attribute]]) -> None:
    """Add ops and attributes to the dialects in their names, so that they can be parsed.

    A dialect of the package is extended; an unknown one is created.
    """
    groups: dict[str, list[type[Operation] | type[Attribute]]] = {}
    for each in definitions:
        groups.setdefault(each.name.partition(".")[0], []).append(each)
    known = all_dialects()
    for name, group in groups.items():
        dialect = known[name]() if name in known else Dialect(name)
        ops, attributes = list(dialect.operations), list(dialect.attributes)
        added = [each for each in group if each not in ops and each not in attributes]
        if not added:
            continue
        names = {each.name for each in added}
        ops = [op for op in ops if op.name not in names]
        attributes = [attribute for attribute in attributes if attribute.name not in names]
        ops += [each for each in added if issubclass(each, Operation)]
        attributes += [each for each in added if issubclass(each, Attribute)]
        interfaces = list(dialect._interfaces)  # pyright: ignore[reportPrivateUsage]
        whole = Dialect(name, ops, attributes, interfaces)
        DIALECTS.add(name, lambda whole=whole: whole, by=group[0], replace=True)


PASSES: Registry[str, PassFactory] = Registry("pass", own_passes)
"""Passes by name: the package's own and registered ones."""

DIALECTS: Registry[str, DialectFactory] = Registry("dialect", own_dialects)
"""Dialects by name: the package's own and registered ones."""


def register_output(cls: type[Target]) -> type[Target]:
    """Register an output format by its name, overriding one of the package; a decorator.

    Raises:
        InputError: another registered output format has the name.
    """
    OUTPUTS.add(cls.name, lambda: cls, by=cls)
    return cls


@cache
def own_targets() -> dict[str, TargetFactory]:
    """Return factories of the package's own output formats by name."""
    factories: dict[str, TargetFactory] = {}
    for path in sorted((_ROOT / "backends").glob("*/targets.py")):
        for name in _NAME_LINE.findall(path.read_text(encoding="utf-8")):
            factories[name] = _target_factory(_module_name(path), name)
    return factories


OUTPUTS: Registry[str, TargetFactory] = Registry("form of output", own_targets)
"""Output formats by name: the package's own and registered ones."""


def _python_files(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("*.py"))


def _module_name(path: Path) -> str:
    parts = path.relative_to(_ROOT).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join((_PACKAGE, *parts))


def _dialect_factory(module_name: str) -> DialectFactory:
    def factory() -> Dialect:
        return importlib.import_module(module_name).DIALECT

    return factory


def _pass_factory(module_name: str, name: str) -> PassFactory:
    def factory() -> type[ModulePass]:
        for cls in _classes(module_name):
            if getattr(cls, "name", None) == name and issubclass(cls, ModulePass):
                return cls
        raise InputError(f"{module_name} defines no pass named '{name}'")

    return factory


def _target_factory(module_name: str, name: str) -> TargetFactory:
    def factory() -> type[Target]:
        for cls in _classes(module_name):
            if getattr(cls, "name", None) == name and issubclass(cls, Target):
                return cls
        raise InputError(f"{module_name} defines no target named '{name}'")

    return factory


def _classes(module_name: str) -> Iterator[type]:
    module = importlib.import_module(module_name)
    yield from (value for value in vars(module).values() if isinstance(value, type))
