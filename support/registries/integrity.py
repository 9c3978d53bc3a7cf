"""Detection of changes made to the package's modules after their import.

A program may replace a function of the package, a method of an operator, or an entry of a table
that the package treats as constant. All of these affect the generated code, but not the hash of the
package's files. Therefore the names, tables and classes of each module are recorded after its
import and compared when needed, which takes microseconds per module if nothing has changed.

Names in capitals are constants: the contents of dictionaries, lists and sets with such names are
compared. Other module-level objects are state, of which only the identity is compared.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, cast

_PACKAGE = "tcopt"
_FREE = (f"{_PACKAGE}.tools", f"{_PACKAGE}.tuner", f"{_PACKAGE}.quantization")
"""Modules that do not affect generated code."""

_WRITTEN_BY_PYTHON = frozenset(
    ("__warningregistry__", "__abstractmethods__", "_abc_impl", "__annotations__", "__slotnames__")
)

Stamp = tuple[int, int]
"""Modification time in nanoseconds and size of a file."""


class _Space:
    """Snapshot of the names and objects of a module, class or table.

    Attributes:
        now: the live mapping.
        values: the recorded objects.
    """

    def __init__(self, owner: ModuleType | type | dict[Any, object], label: str):
        self.now: Mapping[Any, object] = owner if isinstance(owner, dict) else vars(owner)
        self.values: list[object] = []
        self._owner = owner
        self._label = label
        self._note()

    def changes(self) -> Iterator[str]:
        """Yield the names of objects that were replaced."""
        found = list(self._differing())
        yield from (f"{self._label}.{name}" for name in found)
        if not found:
            self._note()

    def _note(self) -> None:
        self._before = dict(self.now)
        self.values[:] = self.now.values()

    def _differing(self) -> Iterator[object]:
        now, before = self.now, self._before
        for name in before.keys() - _WRITTEN_BY_PYTHON:
            if name not in now or not _equal([now[name]], [before[name]]):
                yield name
        added = now.keys() - before.keys() - _WRITTEN_BY_PYTHON
        yield from (name for name in added if self._matters(name))
        if isinstance(self._owner, dict) and list(now) != list(before):
            yield "order"

    def _matters(self, name: Any) -> bool:
        """Whether a new name may shadow something that was used before."""
        value = self.now[name]
        if isinstance(self._owner, ModuleType):
            # A package gets an attribute for each imported submodule.
            return not isinstance(value, ModuleType)
        if isinstance(self._owner, type):
            inherited = (vars(base) for base in self._owner.__mro__[1:])
            return next((space[name] for space in inherited if name in space), self) is not value
        return True


class _List:
    """Snapshot of a constant list or set."""

    def __init__(self, table: list[object] | set[object], label: str):
        self._table = table
        self._label = label
        self._content = table.copy()

    def changes(self) -> Iterator[str]:
        """Yield the name if the content has changed."""
        if not _equal(self._table, self._content):
            yield self._label


def note(module: ModuleType) -> None:
    """Record the state of a module, which may be a plugin."""
    name, space = module.__name__, vars(module)
    own = [v for v in space.values() if isinstance(v, type) and v.__module__ == name]
    inner = [v for c in own for v in vars(c).values() if isinstance(v, type)]
    tables = {f"{name}.{label}": v for label, v in space.items() if label.isupper()}
    _spaces[name] = [
        _Space(module, name),
        *(_Space(cls, f"{name}.{cls.__qualname__}") for cls in (*own, *inner)),
        *(_Space(cast(Any, t), label) for label, t in tables.items() if type(t) is dict),
    ]
    _lists[name] = [_List(t, label) for label, t in tables.items() if type(t) in (list, set)]


_spaces: dict[str, list[_Space]] = {}
_lists: dict[str, list[_List]] = {}
"""Snapshots by module name."""

_sources: dict[str, Stamp] = {}
"""Stamps of the files that code in this process was loaded from, at the time of import."""


def altered() -> Iterator[str]:
    """Yield the names of objects of the package that were changed since their import."""
    for spaces in list(_spaces.values()):
        for space in spaces:
            # Lists compare identical objects quickly, and nearly all are identical.
            if not _equal(list(space.now.values()), space.values):
                yield from space.changes()
    for lists in list(_lists.values()):
        for each in lists:
            yield from each.changes()


def forget(name: str) -> None:
    """Stop comparing a module."""
    _spaces.pop(name, None)
    _lists.pop(name, None)


def sources() -> dict[str, Stamp]:
    """Return the stamps of the package's files that were imported, at the time of import."""
    return dict(_sources)


def stamp(path: str) -> Stamp | None:
    """Return a stamp that changes whenever a file is written to; None if it does not exist."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


def watch() -> None:
    """Record the state of package modules imported from now on."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())  # pyright: ignore[reportArgumentType]


class _Finder:
    """Import hook that wraps Python's loader for modules of the package."""

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{_PACKAGE}.") or fullname.startswith(_FREE):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        found = stamp(self.path)
        super().exec_module(module)
        if found is not None:
            _sources[self.path] = found
        note(module)


def _equal(one: object, other: object) -> bool:
    """Whether two lists are equal; identical objects are not compared."""
    try:
        return bool(one == other)
    except Exception:  # A replaced object may have any comparison method.
        return False
