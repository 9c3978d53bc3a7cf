"""Plugins: files or modules that extend the compiler, imported on request.

A plugin registers its extensions by the same decorators and tables as the package: passes,
dialects, targets, ONNX handlers, schedule rules, intrinsics, emit rules, interpreters. Passes,
output formats, ops and attributes that it only defines are registered automatically.

If its files have changed since, a plugin is loaded again after its old registrations are removed.

If its files fully determine its behaviour, see `plugin_sources`, their hash is part of cache keys
and the plugin is sent to worker processes. Otherwise, code compiled with it is not cached. Both
hold for the files that were executed: a plugin that uses a module which was imported before is not
cached either, as that module's file may have changed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from types import ModuleType
from typing import Any

from tcopt.support.errors import InputError
from tcopt.support.registries.plugin_sources import (
    COVERED,
    PluginSource,
    file_source,
    module_source,
)
from tcopt.support.registries.registration import add_to_keys, forget, registering
from tcopt.support.remarks import notice
from tcopt.support.suggestions import suggest

GROUP = "tcopt.plugins"
"""Entry-point group of plugins in installed packages."""

_SUFFIX = ".py"


@dataclass(frozen=True)
class _Loaded:
    """A plugin in this process.

    Attributes:
        folder: folder that its files were read from.
        modules: names of the modules that were imported with it.
    """

    source: PluginSource
    folder: Path
    module: ModuleType
    modules: frozenset[str]

    def files(self) -> dict[Path, bytes]:
        """Return the content of its files at the time of loading."""
        return _files(self.source, self.folder)


_loaded: dict[str, _Loaded] = {}
"""Plugins in loading order, by the path of a file or the name of a module or entry point."""

_lock = RLock()
"""Held while the set of plugins changes."""


def load_plugins(names: Iterable[str | Path]) -> list[ModuleType]:
    """Load plugins in order; plugins that are already loaded are skipped.

    Args:
        names: for each plugin the path of a `.py` file, the name of an entry point in the group
            `tcopt.plugins`, or the name of an importable module.
    Returns:
        The plugins' modules.
    Raises:
        InputError: a plugin does not exist or cannot be imported.
    """
    with _lock:
        return [_load(_key(name)) for name in names]


@contextmanager
def plugins_loaded(names: Iterable[str | Path]) -> Generator[None]:
    """Load plugins within the context; plugins loaded before are kept afterwards."""
    before = set(_loaded)
    try:
        load_plugins(names)
        yield
    finally:
        for name in [name for name in _loaded if name not in before]:
            unload(name)


def loaded_sources(*, all_: bool = False) -> list[PluginSource]:
    """Return the sources of the loaded plugins in loading order.

    Args:
        all_: whether to include plugins that depend on more than their files.
    """
    sources = [loaded.source for loaded in _loaded.values()]
    return [source for source in sources if all_ or source.influence is None]


def sent_plugins(*, all_: bool = False) -> list[Any]:
    """Return the loaded plugins in the form of `take_plugins`, as JSON values.

    Args:
        all_: see `loaded_sources`.
    """
    return [source.facts() for source in loaded_sources(all_=all_)]


def take_plugins(sent: Iterable[Any]) -> None:
    """Load exactly the plugins that another process has sent."""
    wanted = [PluginSource.of(each) for each in sent]
    with _lock:
        if loaded_sources(all_=True) == wanted:
            return
        for name in list(_loaded):
            _remove(name)
        for source in wanted:
            with TemporaryDirectory() as folder:
                for path, code in source.files.items():
                    place = Path(folder, path)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(code)
                name = f"{source.module}:{source.function}:{source.digest}"
                _take(name, source, Path(folder), name, first=True)


def unload(name: str | Path) -> None:
    """Remove everything that a plugin has registered; no effect if it is not loaded.

    Other plugins that share some of its modules are loaded again.
    """
    with _lock:
        key = _key(name)
        if key in _loaded:
            _reload(_related(key, _loaded[key].files()), without=key)


def _key(name: str | Path) -> str:
    if isinstance(name, str) and not name.endswith(_SUFFIX) and "/" not in name:
        return name
    return str(Path(name).resolve())


def _load(name: str) -> ModuleType:
    source, folder = _find(name)
    known = _loaded.get(name)
    if known is not None and (known.source.files, known.folder) == (source.files, folder):
        return known.module
    files = _files(source, folder)
    related = _related(name, files)
    old = [pair for other in related for pair in _loaded[other].files().items()]
    if known is not None or any(files.get(path, code) != code for path, code in old):
        _reload(related, without=name)
    return _take(name, source, folder, Path(name).name).module


def _files(source: PluginSource, folder: Path) -> dict[Path, bytes]:
    return {folder / path: code for path, code in source.files.items()}


def _related(name: str, files: Iterable[Path]) -> list[str]:
    """Return the loaded plugins that are called like this or have some of these files."""
    paths = set(files)
    return [n for n, each in _loaded.items() if n == name or not paths.isdisjoint(each.files())]


def _reload(names: Iterable[str], *, without: str) -> None:
    """Remove plugins, and load all but one of them again."""
    for name in (stale := list(names)):
        _remove(name)
    for name in stale:
        if name != without:
            _load(name)


def _remove(name: str) -> None:
    loaded = _loaded.pop(name)
    _drop(name, loaded.modules)


def _drop(name: str, modules: Iterable[str]) -> None:
    """Remove the registrations and modules of a plugin, so that a later import executes them."""
    dropped = frozenset(modules)
    forget(name, dropped)
    for module in dropped:
        sys.modules.pop(module, None)


def _find(name: str) -> tuple[PluginSource, Path]:
    """Read the sources of a plugin; return them and the folder that they are in."""
    if os.path.isabs(name):
        path = Path(name)
        try:
            return file_source(path), path.parent
        except IsADirectoryError:
            raise InputError(f"'{path.name}' is a folder, not a plugin") from None
        except FileNotFoundError:
            raise InputError(f"there is no file '{_shown(path)}' to load") from None
        except OSError as error:
            raise InputError(f"cannot read '{_shown(path)}': {error.strerror}") from None
    from importlib.metadata import entry_points

    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    entry = entries.get(name)
    module, function = (name, "") if entry is None else (entry.module, entry.attr)
    root = module.partition(".")[0]
    try:
        spec = importlib.util.find_spec(root)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        hint = suggest(name, entries) or "a file's name ends in .py"
        raise InputError(f"there is no plugin or module '{name}'", hint=hint)
    if root in COVERED:
        return PluginSource(module, function, {}), Path()
    places = list(spec.submodule_search_locations or [spec.origin or ""])
    if len(places) != 1 or not os.path.isabs(places[0]):
        return PluginSource(module, function, {}, "its source was not found"), Path()
    folder = Path(places[0]).parent
    return module_source(folder, module, function), folder


def _shown(path: Path) -> str:
    """Return a path for messages, relative to the current folder if it is in it."""
    here = os.path.relpath(path)
    return str(path) if here.startswith(os.pardir) else here


def _take(
    name: str, source: PluginSource, folder: Path, shown: str, *, first: bool = False
) -> _Loaded:
    """Import a plugin.

    Args:
        shown: its name in messages.
        first: whether its folder precedes the import path, as for sources of another process, which
            has checked them.
    """
    before = set(sys.modules)
    executed = {path: code for other in _loaded.values() for path, code in other.files().items()}
    names = (source.module, *source.modules)
    roots = {each.partition(".")[0] for each in names}.difference(COVERED)

    def imported() -> frozenset[str]:
        new = set(sys.modules) - before
        return frozenset(m for m in new if m.partition(".")[0] in roots or m == _module(name))

    try:
        with registering(name), _on_path(folder, first), _located(shown, source, folder):
            module = _import(source.module) if source.module else _import_file(name, source, folder)
            # Import everything now, as later registrations would not be part of cache keys.
            for other in source.modules:
                importlib.import_module(other)
            if source.function:
                value = attrgetter(source.function)(module)
                if callable(value):
                    value()
            _register(module, roots)
    except InputError:
        _drop(name, imported())
        raise
    influence = source.influence
    if influence is None and not first:
        influence = _mismatch(source, folder, before, executed)
    loaded = _Loaded(replace(source, influence=influence), folder, module, imported())
    _loaded[name] = loaded
    if influence is None:
        add_to_keys(name, source.digest)
    else:
        notice("cache", shown, f"its files do not determine its behaviour: {influence}")
    return loaded


def _mismatch(
    source: PluginSource, folder: Path, before: set[str], executed: dict[Path, bytes]
) -> str | None:
    """Return why the code that was executed may differ from the sources; None if it does not."""
    for name, path in source.modules.items():
        code, place = source.files[path], folder / path
        if getattr(sys.modules[name], "__file__", None) != str(place):
            return f"module {name} was not imported from {place}"
        if name in before and executed.get(place) != code:
            return f"module {name} was imported before it was loaded"
    with suppress(OSError):
        if all((folder / path).read_bytes() == code for path, code in source.files.items()):
            return None
    return "its files changed while it was loaded"


@contextmanager
def _on_path(folder: Path, first: bool) -> Generator[None]:
    """Make the modules of a folder importable, without byte code that may become stale."""
    place, byte_code = str(folder), sys.dont_write_bytecode
    added = first or place not in sys.path
    if added:
        sys.path.insert(0 if first else len(sys.path), place)
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.dont_write_bytecode = byte_code
        if added:
            sys.path.remove(place)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise InputError(f"there is no plugin or module '{name}'") from None


def _import_file(name: str, source: PluginSource, folder: Path) -> ModuleType:
    path = folder / next(iter(source.files))
    spec = importlib.util.spec_from_file_location(_module(name), path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _module(name: str) -> str:
    """Return the name of the module of a plugin that is a single file."""
    return f"tcopt_user_{Path(name).stem}_{blake2b(name.encode(), digest_size=4).hexdigest()}"


@contextmanager
def _located(name: str, source: PluginSource, folder: Path) -> Generator[None]:
    """Turn errors of a plugin into messages with the line that they came from."""
    try:
        yield
    except InputError as error:
        raise InputError(f"cannot load '{name}': {error.message}", hint=error.hint) from error
    except Exception as error:
        where = _where([str(folder / path) for path in source.files], error)
        raise InputError(f"cannot load '{name}': {where}") from error


def _where(files: list[str], error: Exception) -> str:
    """Return the error message with the line in the user's files that it came from."""
    if isinstance(error, SyntaxError):
        lines, message = [(error.filename, error.lineno)], error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [(f.filename, f.lineno) for f in frames if f.filename in files]
        message = f"{type(error).__name__}: {error}"
    if not lines:
        return message
    file, line = lines[-1]
    prefix = f"{Path(file).name}, " if file and len(files) > 1 else ""
    return f"{prefix}line {line}: {message}"


def _register(module: ModuleType, roots: Iterable[str]) -> None:
    """Register the passes, output formats, ops and attributes that a module only defines."""
    from xdsl.ir import Data, ParametrizedAttribute
    from xdsl.irdl import IRDLOperation
    from xdsl.passes import ModulePass
    from xdsl.utils.target import Target

    from tcopt.support.registries.registry import OUTPUTS, PASSES, register_definitions

    def classes(*bases: type[Any]) -> Iterator[Any]:
        """Yield named classes that the module defines or imports from its plugin."""
        for value in list(vars(module).values()):
            if isinstance(value, type) and issubclass(value, bases) and "name" in vars(value):
                origin = value.__module__
                if origin == module.__name__ or origin.partition(".")[0] in roots:
                    yield value

    for base, table in ((ModulePass, PASSES), (Target, OUTPUTS)):
        for cls in classes(base):
            if cls.name not in table or table[cls.name]() is not cls:
                table.add(cls.name, lambda cls=cls: cls, by=cls)
    register_definitions(classes(IRDLOperation, ParametrizedAttribute, Data))
