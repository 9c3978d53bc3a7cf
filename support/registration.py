"""Tables that a program may add to, which know what did not come with the package.

Whatever decides what code looks like and can be added to from outside is a `Registry`: schedule
rules, emit rules, intrinsics, ONNX handlers, passes and so on. What is compiled with an entry
from outside is neither kept on disk nor given to other processes, see `compiler.extensions`, unless
keys tell its source, as for plugins: `told_by_keys`.

    _RULES: Registry[str, Rule] = Registry("emit rule")
    _RULES.add("arith.addf", rule)              # in a file of the package, or of a user's own

    with _RULES.override("arith.addf", mine):   # for a test
        ...
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, Generic, TypeVar, cast

from tcopt.support.errors import InputError, printable

Key = TypeVar("Key")
Value = TypeVar("Value")

_FOLDER = str(Path(__file__).parent.parent) + "/"
_MODULE = "<module>"
_SHOWN = 80
_CODE = (type, FunctionType)

_PASSED_THROUGH = contextlib.__file__
"""Not where a caller is."""

_told: dict[str, tuple[str, list[Entry[Any]]]] = {}
"""Digests of plugins that keys tell, by their names in order, and their entries."""

_registries: list[weakref.ref[Registry[Any, Any]]] = []
"""All there are in this process; one that was not imported has nothing from outside."""


@dataclass(frozen=True)
class Entry(Generic[Value]):
    """What is registered under a key.

    Attributes:
        value: what it is.
        source: the file that it comes from if that is none of the package's, else empty.
        state: the attributes that the object had when it was registered.
    """

    value: Value
    source: str
    state: Mapping[str, object]

    @property
    def is_foreign(self) -> bool:
        """Whether it comes from outside of the package, or is not what it was."""
        return bool(self.source) or not self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether the object has the attributes that it had."""
        if not self.state:
            return True
        now = vars(self.value)
        return all(name in now and now[name] is value for name, value in self.state.items())


class Registry(MutableMapping[Key, Value]):
    """A table of definitions by key.

    An entry from outside takes the place of the package's own of the same key, whichever was
    registered first; the package's is there again when the other one is removed.

    Args:
        kind: what an entry is, as messages call it.
        load: imports the package's own definitions, or gives them by key; called when the table
            is first read.
        in_keys: whether what an entry says is part of the key of all that is kept on disk, so
            that those from outside need not be known of there.
    """

    def __init__(self, kind: str, load: Callable[[], Any] | None = None, *, in_keys: bool = False):
        self.kind = kind
        self.generation = 0
        """Changes with the entries; for what is kept that was made of them."""
        self._load = load
        self._in_keys = in_keys
        self._own: dict[Key, Entry[Value]] = {}
        self._foreign: dict[Key, Entry[Value]] = {}
        self._values: dict[Key, Value] = {}
        _registries.append(weakref.ref(self))

    def add(
        self, key: Key, value: Value, *, replace: bool = False, source: str | None = None
    ) -> bool:
        """Register a definition; gives whether it comes from outside of the package.

        Args:
            replace: whether it may take the place of another one that comes from there, too.
            source: the file that it comes from, where that is not the one that calls.
        Raises:
            InputError: there is one already, and it is not to be replaced.
        """
        entry = Entry(value, _source(value) if source is None else source, _state(value))
        layer = self._foreign if entry.source else self._own
        if key in layer and not replace:
            raise InputError(f"there are two definitions of {self.describe(key)}")
        layer[key] = entry
        self._changed(key)
        return bool(entry.source)

    def is_foreign(self, key: Key) -> bool:
        """Whether what is registered comes from outside of the package."""
        return key in self._foreign

    def __setitem__(self, key: Key, value: Value) -> None:
        self.add(key, value, replace=True)

    def __delitem__(self, key: Key) -> None:
        """Remove what is registered; the package's own if there is none from outside."""
        layer = self._foreign if key in self._foreign else self._own
        del layer[key]
        self._changed(key)

    @contextmanager
    def override(self, key: Key, value: Value) -> Generator[None]:
        """Another definition for as long as the context lasts."""
        before = self._foreign.get(key)
        self._foreign[key] = Entry(value, _source(value) or "<override>", _state(value))
        self._changed(key)
        try:
            yield
        finally:
            if before is None:
                del self._foreign[key]
            else:
                self._foreign[key] = before
            self._changed(key)

    def __getitem__(self, key: Key) -> Value:
        self._read()
        return self._values[key]

    def __iter__(self) -> Iterator[Key]:
        self._read()
        return iter(list(self._values))

    def __len__(self) -> int:
        self._read()
        return len(self._values)

    def values_by_key(self) -> Mapping[Key, Value]:
        """All that is registered; quick to look up in."""
        self._read()
        return self._values

    def describe(self, key: object) -> str:
        """An entry as messages name it."""
        return f"{self.kind} '{printable(str(key), _SHOWN)}'"

    def forget(self, source: str) -> None:
        """Remove what a file outside of the package has registered."""
        for key in [key for key, entry in self._foreign.items() if entry.source == source]:
            del self[key]

    def entries_of(self, source: str) -> list[Entry[Value]]:
        """What a file outside of the package has registered."""
        return [entry for entry in self._foreign.values() if entry.source == source]

    def foreign(self) -> Iterator[str]:
        """Descriptions of entries that keys on disk do not tell."""
        if self._in_keys:
            return
        for entries in (self._foreign, self._own):
            for key, entry in list(entries.items()):
                if entry.is_foreign and not _is_told(entry):
                    place = entry.source or "changed after it was registered"
                    yield f"{self.describe(key)} ({printable(place, 2 * _SHOWN)})"

    def _read(self) -> None:
        if self._load is None:
            return
        given = self._load()
        if isinstance(given, Mapping):
            found = cast("Mapping[Key, Value]", given)
            self._own = {key: Entry(value, "", _state(value)) for key, value in found.items()}
            self._values = {**found, **self._values}
        # Only now: another thread must not read half of it.
        self._load = None

    def _changed(self, key: Key) -> None:
        self.generation += 1
        entry = self._foreign.get(key) or self._own.get(key)
        if entry is None:
            self._values.pop(key, None)
        else:
            self._values[key] = entry.value


def told_by_keys(plugin: str, files: Iterable[str], digest: str) -> None:
    """Have keys tell all that a plugin's files have registered by now.

    Args:
        plugin: its name.
        digest: of what the files hold.
    """
    tables = [registry for reference in _registries if (registry := reference()) is not None]
    entries = [entry for table in tables for file in files for entry in table.entries_of(file)]
    _told[plugin] = digest, entries


def told_no_more(plugin: str) -> None:
    """Have keys not tell a plugin."""
    _told.pop(plugin, None)


def told_key() -> str:
    """Stands in keys for the files that they tell, in the order of loading; empty for none."""
    return " ".join(digest for digest, _ in _told.values())


def _is_told(entry: Entry[Any]) -> bool:
    plugins = list(_told.values())
    return entry.is_whole and any(entry is told for _, entries in plugins for told in entries)


def forget(source: str) -> None:
    """Remove what a file outside of the package has registered, in all tables."""
    for reference in list(_registries):
        registry = reference()
        if registry is not None:
            registry.forget(source)


def foreign_entries() -> Iterator[str]:
    """What is registered anywhere in this process that did not come with the package."""
    for reference in _registries:
        registry = reference()
        if registry is not None:
            yield from registry.foreign()


def _source(value: object) -> str:
    """The file outside of the package that registers a value, or defines it; empty for none."""
    return _caller() or foreign_code(value)


def _caller() -> str:
    """The file outside of the package that called into it; empty for a module of the package.

    What a module of the package registers while it is imported is the package's, whoever
    imports it.
    """
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if not is_own(code.co_filename):
            if code.co_filename != _PASSED_THROUGH:
                return code.co_filename
        elif code.co_name == _MODULE:
            return ""
        frame = frame.f_back
    return ""


def is_own(path: str) -> bool:
    """Whether a file of Python code is one of the package."""
    return path.startswith(_FOLDER)


def foreign_code(value: object) -> str:
    """The file outside of the package of a function, a class, or what an object is made of."""
    held = [value] if isinstance(value, _CODE) else [type(value), *_state(value).values()]
    for each in held:
        path = _file(each)
        if path and not is_own(path):
            return path
    return ""


def _file(value: object) -> str:
    """Where a function or class of a program was defined; empty for others."""
    if isinstance(value, FunctionType):
        return value.__code__.co_filename
    if isinstance(value, type):
        return getattr(sys.modules.get(value.__module__), "__file__", None) or ""
    return ""


def _state(value: object) -> Mapping[str, object]:
    """The attributes of an object that is neither a class nor a function."""
    return {} if isinstance(value, _CODE) else dict(getattr(value, "__dict__", {}))
