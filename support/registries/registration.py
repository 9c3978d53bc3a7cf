"""Registries that user code can extend, and the origin of their entries.

Everything that affects generated code and can be extended is a `Registry`: schedule rules, emit
rules, intrinsics, ONNX handlers, passes and so on. Cache keys cover the entries that the package
registers while its modules are imported, and those that a plugin registers while it is loaded. Any
other entry, such as one of a script or a notebook, disables the cache and worker processes until it
is removed, see `extensions`.

    _RULES: Registry[str, Rule] = Registry("emit rule")
    _RULES.add("arith.addf", rule)              # in a file of the package, or of a user's own

    with _RULES.override("arith.addf", mine):   # for a test
        ...
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Container, Generator, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from tcopt import own_definitions
from tcopt.support.errors import InputError, printable

Key = TypeVar("Key")
Value = TypeVar("Value")

_PACKAGE = "tcopt."
_OTHER = ""
_SHOWN = 80

_loading: ContextVar[str] = ContextVar("loading", default=_OTHER)
"""Name of the plugin that this thread is loading."""

_keyed: dict[str, str] = {}
"""Digests of the plugins that are part of cache keys, by name in loading order."""

_registries: list[weakref.ref[Registry[Any, Any]]] = []
"""All registries of this process; modules not yet imported have no foreign entries."""


@dataclass(frozen=True)
class _Foreign(Generic[Value]):
    """A definition from outside the package.

    Attributes:
        plugin: name of the plugin that registered it; empty for other code.
        module: name of the module that defines it.
    """

    value: Value
    plugin: str
    module: str


class Registry(MutableMapping[Key, Value]):
    """A table of definitions by key.

    A foreign entry, from a plugin or other code, overrides the package's own entry of the same key,
    in either order of registration. The package's entry is visible again when the foreign one is
    removed.

    Args:
        kind: what messages call an entry.
        load: imports the package's own definitions or returns them by key; called when the table is
            first read. The default is the scan of the package, see `tcopt.definitions`.
        in_keys: whether the content of entries is part of cache keys, whoever registers them.
    """

    def __init__(self, kind: str, load: Callable[[], Any] | None = None, *, in_keys: bool = False):
        self.kind = kind
        self.generation = 0
        """Incremented at each change, to invalidate results that depend on the entries."""
        self._load: Callable[[], Any] | None = load or partial(own_definitions, kind)
        self._in_keys = in_keys
        self._own: dict[Key, Value] = {}
        self._foreign: dict[Key, _Foreign[Value]] = {}
        self._values: dict[Key, Value] = {}
        _registries.append(weakref.ref(self))

    def add(self, key: Key, value: Value, *, by: object = None, replace: bool = False) -> bool:
        """Register a definition; return whether it comes from outside the package.

        Args:
            by: function or class of the code that registers the value; by default the value. Only a
                module of the package that is being imported registers entries of the package.
            replace: whether it may replace another definition of the same origin.
        Raises:
            InputError: the key has a definition, which must not be replaced.
        """
        module = _module_of(value if by is None else by)
        own = _is_importing(module)
        if key in (self._own if own else self._foreign) and not replace:
            raise InputError(f"there are two definitions of {self.describe(key)}")
        if own:
            self._own[key] = value
        else:
            self._foreign[key] = _Foreign(value, _loading.get(), module)
        self._changed(key)
        return not own

    def is_foreign(self, key: Key) -> bool:
        """Whether the definition of a key comes from outside the package."""
        return key in self._foreign

    def __setitem__(self, key: Key, value: Value) -> None:
        self.add(key, value, replace=True)

    def __delitem__(self, key: Key) -> None:
        """Remove a definition; the foreign one if there is one, otherwise the package's own."""
        del (self._foreign if key in self._foreign else self._own)[key]
        self._changed(key)

    @contextmanager
    def override(self, key: Key, value: Value) -> Generator[None]:
        """Override a definition within the context."""
        before = self._foreign.get(key)
        self._foreign[key] = _Foreign(value, _OTHER, _module_of(value))
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

    def forget(self, plugin: str, modules: Container[str] = ()) -> None:
        """Remove the definitions that a plugin has registered or that are in its modules."""
        for key, entry in list(self._foreign.items()):
            if entry.plugin == plugin or entry.module in modules:
                del self[key]

    def extensions(self) -> Iterator[str]:
        """Describe the entries that are not covered by cache keys."""
        for key, entry in [] if self._in_keys else list(self._foreign.items()):
            if entry.plugin not in _keyed:
                file = "" if entry.module.startswith(_PACKAGE) else _file_of(entry.module)
                yield self.describe(key) + (file and f" ({printable(file, 2 * _SHOWN)})")

    def _read(self) -> None:
        if self._load is None:
            return
        given = self._load()
        if isinstance(given, Mapping):
            found = cast("Mapping[Key, Value]", given)
            self._own = {**found, **self._own}
            self._values = {**found, **self._values}
        # Set last, so that other threads do not see a partial table.
        self._load = None

    def _changed(self, key: Key) -> None:
        self.generation += 1
        if key in self._foreign:
            self._values[key] = self._foreign[key].value
        elif key in self._own:
            self._values[key] = self._own[key]
        else:
            self._values.pop(key, None)


def extensions() -> Iterator[str]:
    """Describe all entries in this process that are not covered by cache keys."""
    for registry in _all_registries():
        yield from registry.extensions()


def is_extended() -> bool:
    """Whether any code registered entries that are not covered by cache keys."""
    return next(extensions(), None) is not None


@contextmanager
def registering(plugin: str) -> Generator[None]:
    """Attribute entries that this thread registers within the context to a plugin."""
    token = _loading.set(plugin)
    try:
        yield
    finally:
        _loading.reset(token)


def add_to_keys(plugin: str, digest: str) -> None:
    """Include what a plugin has registered in the cache keys.

    Args:
        digest: hash of the plugin's files.
    """
    _keyed[plugin] = digest


def forget(plugin: str, modules: Container[str]) -> None:
    """Remove the definitions of a plugin from all registries, and the plugin from the cache keys.

    Args:
        modules: names of the plugin's modules.
    """
    _keyed.pop(plugin, None)
    for registry in _all_registries():
        registry.forget(plugin, modules)


def plugins_key() -> str:
    """Return the plugins' part of cache keys: digests in loading order; empty for none."""
    return " ".join(_keyed.values())


def foreign_file(function: Callable[..., Any]) -> str:
    """Return the file outside the package that defines a function; empty if the package does."""
    module = _module_of(function)
    return "" if module.startswith(_PACKAGE) else _file_of(module)


def _file_of(module: str) -> str:
    """Return the file of a module, or its name if it has none."""
    return getattr(sys.modules.get(module), "__file__", None) or module


def _all_registries() -> list[Registry[Any, Any]]:
    return [found for reference in list(_registries) if (found := reference()) is not None]


def _is_importing(module: str) -> bool:
    """Whether a module of the package is being imported.

    Only then does the package register anything. Other code may register a function of the package
    as well, but has to import its module first.
    """
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return module.startswith(_PACKAGE) and getattr(spec, "_initializing", False)


def _module_of(value: Any) -> str:
    """Return the name of the module that defines a function, a class or an object's class."""
    if isinstance(value, partial):
        return _module_of(value.func)
    names = getattr(value, "__globals__", None)
    if names is not None:
        return names.get("__name__", "")
    if hasattr(value, "__wrapped__"):  # A function with a cache.
        return _module_of(value.__wrapped__)
    return (value if isinstance(value, type) else type(value)).__module__
