"""What the package's modules were when they were imported, to tell what was changed since.

A program may put a function of its own in the place of one of the package, change a table that
the package calls a constant, or a method of an operator. Code depends on all of these, and no
hash of the package's files tells. So each module's names, tables and classes are noted when it
has been imported, and compared when it matters, which takes microseconds a module as long as
nothing has changed.

Names in capitals are constants: what dictionaries, lists and sets of such a name hold is part of
what is compared. Other module-level objects are state, of which only the name is.
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
"""Modules that make no code."""

_WRITTEN_BY_PYTHON = frozenset(
    ("__warningregistry__", "__abstractmethods__", "_abc_impl", "__annotations__", "__slotnames__")
)

Stamp = tuple[int, int]
"""Time of change in nanoseconds and size of a file."""


class _Space:
    """The names of a module, a class or a table, and the objects that they stood for.

    Attributes:
        now: the mapping itself.
        values: the objects.
    """

    def __init__(self, owner: ModuleType | type | dict[Any, object], label: str):
        self.now: Mapping[Any, object] = owner if isinstance(owner, dict) else vars(owner)
        self.values: list[object] = []
        self._owner = owner
        self._label = label
        self._note()

    def changes(self) -> Iterator[str]:
        """Names of what is another object now."""
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
        """Whether a new name may stand for another thing than before."""
        value = self.now[name]
        if isinstance(self._owner, ModuleType):
            # A package gets a name for each module that is imported from it.
            return not isinstance(value, ModuleType)
        if isinstance(self._owner, type):
            inherited = (vars(base) for base in self._owner.__mro__[1:])
            return next((space[name] for space in inherited if name in space), self) is not value
        return True


class _List:
    """A constant that is a list or a set."""

    def __init__(self, table: list[object] | set[object], label: str):
        self._table = table
        self._label = label
        self._content = table.copy()

    def changes(self) -> Iterator[str]:
        """The name, if the content is another one now."""
        if not _equal(self._table, self._content):
            yield self._label


def note(module: ModuleType) -> None:
    """Note all that there is to compare of a module, of a plugin too."""
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
"""By the names of modules."""

_sources: dict[str, Stamp] = {}
"""The files that code of the package in this process was read from, as they were then."""


def altered() -> Iterator[str]:
    """What of the package's modules a program has changed since they were imported."""
    for spaces in list(_spaces.values()):
        for space in spaces:
            # Objects that are the same are not compared; nearly always all are.
            if not _equal(list(space.now.values()), space.values):
                yield from space.changes()
    for lists in list(_lists.values()):
        for each in lists:
            yield from each.changes()


def forget(name: str) -> None:
    """Compare a module no more."""
    _spaces.pop(name, None)
    _lists.pop(name, None)


def sources() -> dict[str, Stamp]:
    """The files that code of the package in this process was read from, as they were then."""
    return dict(_sources)


def stamp(path: str) -> Stamp | None:
    """What changes when a file is written to; None if there is no such file."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


def watch() -> None:
    """Note modules of the package as they are imported from now on."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())  # pyright: ignore[reportArgumentType]


class _Finder:
    """Finds modules of the package where Python does."""

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
    """Whether two lists hold the same; objects that are the same are not compared."""
    try:
        return bool(one == other)
    except Exception:  # What is there now may compare as it likes.
        return False
