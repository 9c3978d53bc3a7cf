"""Registries of passes, dialects and output formats.

xDSL's own definitions are included. The package's definitions override xDSL's of the same name, and
registered definitions override both.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from types import ModuleType

from xdsl.ir import Attribute, Dialect, Operation
from xdsl.passes import ModulePass
from xdsl.utils.target import Target

from tcopt.support.registries.registration import Registry

PassFactory = Callable[[], type[ModulePass]]
DialectFactory = Callable[[], Dialect]
TargetFactory = Callable[[], type[Target]]


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


PASSES: Registry[str, PassFactory] = Registry("pass")
"""Passes by name: the package's own and registered ones."""

DIALECTS: Registry[str, DialectFactory] = Registry("dialect")
"""Dialects by name: the package's own and registered ones."""


def register_output(cls: type[Target]) -> type[Target]:
    """Register an output format by its name, overriding one of the package; a decorator.

    Raises:
        InputError: another registered output format has the name.
    """
    OUTPUTS.add(cls.name, lambda: cls, by=cls)
    return cls


OUTPUTS: Registry[str, TargetFactory] = Registry("form of output")
"""Output formats by name: the package's own and registered ones."""
