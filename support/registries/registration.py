"""Registries that user code can extend, with tracking of definitions from outside the package.

Everything that affects generated code and can be extended is a `Registry`: schedule rules, emit
rules, intrinsics, ONNX handlers, passes and so on. Code compiled with a foreign entry is neither
cached nor compiled in other processes, see `compiler.extensions`, unless the entry's source is part
of cache keys, as for plugins: `add_to_keys`.

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

_FOLDER = str(Path(__file__).parent.parent.parent) + "/"
_MODULE = "<module>"
_SHOWN = 80
_CODE = (type, FunctionType)

_PASSED_THROUGH = contextlib.__file__
"""Frames of this file are skipped to find the caller."""

_keyed: dict[str, tuple[str, list[Entry[Any]]]] = {}
"""Plugins that are part of cache keys: their digests and entries by name, in loading order."""

_registries: list[weakref.ref[Registry[Any, Any]]] = []
"""All registries of this process; modules not yet imported have no foreign entries."""


@dataclass(frozen=True)
class Entry(Generic[Value]):
    """A registered definition.

    Attributes:
        value: the definition.
        source: file of a definition from outside the package; otherwise empty.
        state: the object's attributes at registration.
    """

    value: Value
    source: str
    state: Mapping[str, object]

    @property
    def is_foreign(self) -> bool:
        """Whether the entry comes from outside the package, or was modified."""
        return bool(self.source) or not self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether the object's attributes are unmodified."""
        if not self.state:
            return True
        now = vars(self.value)
        return all(name in now and now[name] is value for name, value in self.state.items())


class Registry(MutableMapping[Key, Value]):
    """A table of definitions by key.

    A foreign entry overrides the package's own entry of the same key, in either order of
    registration. The package's entry is visible again when the foreign one is removed.

    Args:
        kind: what messages call an entry.
        load: imports the package's own definitions or returns them by key; called when the table is
            first read.
        in_keys: whether the content of entries is part of cache keys anyway, so that foreign ones
            need not be tracked.
    """

    def __init__(self, kind: str, load: Callable[[], Any] | None = None, *, in_keys: bool = False):
        self.kind = kind
        self.generation = 0
        """Incremented at each change, to invalidate results that depend on the entries."""
        self._load = load
        self._in_keys = in_keys
        self._own: dict[Key, Entry[Value]] = {}
        self._foreign: dict[Key, Entry[Value]] = {}
        self._values: dict[Key, Value] = {}
        _registries.append(weakref.ref(self))

    def add(
        self, key: Key, value: Value, *, replace: bool = False, source: str | None = None
    ) -> bool:
        """Register a definition; return whether it comes from outside the package.

        Args:
            replace: whether it may replace another foreign definition.
            source: file of the definition; by default that of the caller.
        Raises:
            InputError: the key has a definition, which must not be replaced.
        """
        entry = Entry(value, _source(value) if source is None else source, _state(value))
        layer = self._foreign if entry.source else self._own
        if key in layer and not replace:
            raise InputError(f"there are two definitions of {self.describe(key)}")
        layer[key] = entry
        self._changed(key)
        return bool(entry.source)

    def is_foreign(self, key: Key) -> bool:
        """Whether the definition of a key comes from outside the package."""
        return key in self._foreign

    def __setitem__(self, key: Key, value: Value) -> None:
        self.add(key, value, replace=True)

    def __delitem__(self, key: Key) -> None:
        """Remove a definition; the foreign one if there is one, otherwise the package's own."""
        layer = self._foreign if key in self._foreign else self._own
        del layer[key]
        self._changed(key)

    @contextmanager
    def override(self, key: Key, value: Value) -> Generator[None]:
        """Override a definition within the context."""
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
        """Return all definitions by key, for fast lookups."""
        self._read()
        return self._values

    def describe(self, key: object) -> str:
        """Return the name of an entry in messages."""
        return f"{self.kind} '{printable(str(key), _SHOWN)}'"

    def forget(self, source: str) -> None:
        """Remove the definitions of a file outside the package."""
        for key in [key for key, entry in self._foreign.items() if entry.source == source]:
            del self[key]

    def entries_of(self, source: str) -> list[Entry[Value]]:
        """Return the entries of a file outside the package."""
        return [entry for entry in self._foreign.values() if entry.source == source]

    def foreign(self) -> Iterator[str]:
        """Describe the entries that are not covered by cache keys."""
        if self._in_keys:
            return
        for entries in (self._foreign, self._own):
            for key, entry in list(entries.items()):
                if entry.is_foreign and not _is_keyed(entry):
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
        # Set last, so that other threads do not see a partial table.
        self._load = None

    def _changed(self, key: Key) -> None:
        self.generation += 1
        entry = self._foreign.get(key) or self._own.get(key)
        if entry is None:
            self._values.pop(key, None)
        else:
            self._values[key] = entry.value


def add_to_keys(plugin: str, files: Iterable[str], digest: str) -> None:
    """Include everything that a plugin's files have registered in the cache keys.

    Args:
        plugin: name of the plugin.
        digest: hash of the files' content.
    """
    tables = [registry for reference in _registries if (registry := reference()) is not None]
    entries = [entry for table in tables for file in files for entry in table.entries_of(file)]
    _keyed[plugin] = digest, entries


def remove_from_keys(plugin: str) -> None:
    """Remove a plugin from the cache keys."""
    _keyed.pop(plugin, None)


def plugins_key() -> str:
    """Return the plugins' part of cache keys: digests in loading order; empty for none."""
    return " ".join(digest for digest, _ in _keyed.values())


def _is_keyed(entry: Entry[Any]) -> bool:
    plugins = list(_keyed.values())
    return entry.is_whole and any(entry is each for _, entries in plugins for each in entries)


def forget(source: str) -> None:
    """Remove the definitions of a file outside the package from all registries."""
    for reference in list(_registries):
        registry = reference()
        if registry is not None:
            registry.forget(source)


def foreign_entries() -> Iterator[str]:
    """Describe all entries in this process that are not covered by cache keys."""
    for reference in _registries:
        registry = reference()
        if registry is not None:
            yield from registry.foreign()


def _source(value: object) -> str:
    """Return the file outside the package that registers or defines a value; empty for none."""
    return _caller() or foreign_code(value)


def _caller() -> str:
    """Return the file of the caller outside the package; empty for a module of the package.

    Definitions that a module of the package registers while it is imported are the package's own,
    whatever code imports the module.
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
    """Whether a Python file is part of the package."""
    return path.startswith(_FOLDER)


def foreign_code(value: object) -> str:
    """Return the file outside the package that defines a function, a class or part of an object."""
    held = [value] if isinstance(value, _CODE) else [type(value), *_state(value).values()]
    for each in held:
        path = _file(each)
        if path and not is_own(path):
            return path
    return ""


def _file(value: object) -> str:
    """Return the file that defines a function or class; empty for other values."""
    if isinstance(value, FunctionType):
        return value.__code__.co_filename
    if isinstance(value, type):
        return getattr(sys.modules.get(value.__module__), "__file__", None) or ""
    return ""


def _state(value: object) -> Mapping[str, object]:
    """Return the attributes of an object; empty for classes and functions."""
    return {} if isinstance(value, _CODE) else dict(getattr(value, "__dict__", {}))
