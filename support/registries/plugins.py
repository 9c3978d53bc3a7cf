"""Plugins: files or modules that extend the compiler, imported on request.

A plugin registers its extensions by the same decorators and tables as the package: passes,
dialects, targets, ONNX handlers, schedule rules, intrinsics, emit rules, interpreters. Passes,
output formats, ops and attributes that it only defines are registered automatically.

If its files have changed since, a plugin is loaded again after its old registrations are removed.

If its source fully determines its behaviour, see `plugin_sources`, a plugin is part of cache keys
and is loaded by worker processes. The source of a module includes its imports from the same
package, see `plugin_modules`.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tcopt.support.errors import InputError
from tcopt.support.registries import integrity
from tcopt.support.registries.plugin_modules import (
    FINDER,
    ModuleSource,
    PluginSource,
    file_module,
    package_influence,
    package_modules,
)
from tcopt.support.registries.plugin_sources import COVERED, outside_influence
from tcopt.support.registries.registration import add_to_keys, forget, is_own, remove_from_keys
from tcopt.support.remarks import notice
from tcopt.support.suggestions import suggest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tcopt.plugins"
"""Entry-point group of plugins in installed packages."""

_SUFFIX = ".py"


@dataclass(frozen=True)
class _Loaded:
    source: PluginSource
    module: ModuleType


_files: dict[Path, _Loaded] = {}
_modules: dict[str, _Loaded] = {}
_order: list[_Loaded] = []


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
    return [_load(name) for name in names]


@contextmanager
def plugins_loaded(names: Iterable[str | Path]) -> Generator[None]:
    """Load plugins within the context; plugins loaded before are kept afterwards."""
    before = {*_files, *_modules}
    try:
        load_plugins(names)
        yield
    finally:
        for loaded in [name for name in (*_files, *_modules) if name not in before]:
            unload(loaded)


def keyed_sources() -> list[PluginSource]:
    """Return the plugins fully determined by their sources, in loading order."""
    return [loaded.source for loaded in _order if loaded.source.keyed]


def loaded_sources() -> list[PluginSource]:
    """Return all loaded plugins in loading order, including those with other influences."""
    return [loaded.source for loaded in _order]


def take_sources(sources: Iterable[PluginSource]) -> None:
    """Load exactly these plugins, to match another process."""
    wanted = list(sources)
    if keyed_sources() == wanted:
        return
    for name in [*_files, *_modules]:
        unload(name)
    for source in wanted:
        _modules[f"{source.name}:{source.function}"] = _take(source, source.name)


def unload(name: str | Path) -> None:
    """Remove everything that a plugin has registered; no effect if it is not loaded."""
    loaded = _modules.pop(name, None) if isinstance(name, str) else None
    loaded = loaded or _files.pop(Path(name).resolve(), None)
    if loaded is None:
        return
    _order.remove(loaded)
    remove_from_keys(_key(loaded.source))
    kept = {module.name for other in _order for module in other.source.modules}
    for module in loaded.source.modules:
        if module.name not in kept:
            _drop(module)


def _drop(module: ModuleSource) -> None:
    forget(module.path)
    integrity.forget(module.name)
    # A later import executes the module again.
    FINDER.drop(module.name)


def _load(name: str | Path) -> ModuleType:
    text = str(name)
    if isinstance(name, Path) or text.endswith(_SUFFIX) or "/" in text:
        return _load_file(Path(text))
    return _load_module(text)


def _load_file(path: Path) -> ModuleType:
    try:
        code = path.read_bytes()
    except IsADirectoryError:
        raise InputError(f"'{path}' is a folder, not a plugin") from None
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}' to load") from None
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror}") from None
    place = path.resolve()
    known = _files.get(place)
    if known is not None and known.source.modules[0].code == code:
        return known.module
    if known is not None:
        unload(place)
    influence = outside_influence(code)
    source = PluginSource((file_module(path, code),), keyed=influence is None)
    _files[place] = _take(source, str(path))
    if influence is not None:
        notice("cache", path.name, f"its source does not determine its behaviour: {influence}")
    return _files[place].module


def _take(source: PluginSource, name: str) -> _Loaded:
    """Import a plugin from its sources; `name` is its name in messages."""
    before = set(sys.modules)

    def run() -> ModuleType:
        FINDER.give(source.modules)
        module = importlib.import_module(source.name)
        if source.keyed:
            # Import everything now, as later registrations would not be part of cache keys.
            for part in source.modules:
                importlib.import_module(part.name)
        if source.function:
            value = attrgetter(source.function)(module)
            if callable(value):
                value()
        _register(module)
        return module

    try:
        module = _guarded(name, source.modules, run)
    except InputError:
        for part in source.modules:
            if part.name not in before:
                _drop(part)
        raise
    if source.keyed:
        add_to_keys(_key(source), [part.path for part in source.modules], source.digest)
        for part in source.modules:
            integrity.note(sys.modules[part.name])
    loaded = _Loaded(source, module)
    _order.append(loaded)
    return loaded


def _key(source: PluginSource) -> str:
    return f"{source.modules[0].path}:{source.function}"


def _load_module(name: str) -> ModuleType:
    if name in _modules and not _has_changed(_modules[name].source):
        return _modules[name].module
    if name in _modules:
        # Other plugins of its package may share its modules.
        package = _modules[name].source.name.partition(".")[0]
        stale = [
            key
            for key, loaded in _modules.items()
            if loaded.source.name.partition(".")[0] == package
        ]
        for key in stale:
            unload(key)
        for key in stale:
            _load_module(key)
        return _modules[name].module
    _modules[name] = _find_and_take(name)
    return _modules[name].module


def _has_changed(source: PluginSource) -> bool:
    """Whether the files of a plugin that is part of cache keys have changed on disk."""
    return source.keyed and package_modules(source.name) != source.modules


def _find_and_take(name: str) -> _Loaded:
    from importlib.metadata import entry_points

    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    entry = entries.get(name)
    wanted, function = (name, "") if entry is None else (entry.module, entry.attr)
    modules = None if wanted.partition(".")[0] in COVERED else package_modules(wanted)
    influence = "its source was not found" if modules is None else package_influence(modules)
    if modules is not None and influence is None:
        return _take(PluginSource(modules, function), name)

    before = set(sys.modules)
    package = wanted.partition(".")[0]

    def run() -> ModuleType:
        module = _import(name, entries)
        _register(module)
        return module

    def imported() -> list[ModuleSource]:
        new = sorted(set(sys.modules) - before)
        return [_as_imported(each) for each in new if each.partition(".")[0] == package]

    try:
        module = _guarded(name, modules or (), run)
    except InputError:
        for part in imported():
            _drop(part)
        raise
    parts = {part.name: part for part in [_as_imported(module.__name__), *imported()]}
    if not is_own(parts[module.__name__].path):
        notice("cache", name, f"its source does not determine its behaviour: {influence}")
    loaded = _Loaded(PluginSource(tuple(parts.values()), function, keyed=False), module)
    _order.append(loaded)
    return loaded


def _as_imported(name: str) -> ModuleSource:
    """Return an imported module without its source."""
    return ModuleSource(name, getattr(sys.modules[name], "__file__", None) or name, b"")


def _import(name: str, entries: dict[str, EntryPoint]) -> ModuleType:
    if name in entries:
        value: Any = entries[name].load()
        # An entry point is a module, or a function that registers extensions.
        if callable(value):
            value()
            return sys.modules[entries[name].module]
        return value
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        hint = suggest(name, entries) or "a file's name ends in .py"
        raise InputError(f"there is no plugin or module '{name}'", hint=hint) from None


def _guarded(
    name: str, modules: Sequence[ModuleSource], run: Callable[[], ModuleType]
) -> ModuleType:
    try:
        return run()
    except InputError as error:
        raise InputError(f"cannot load '{name}': {error.message}", hint=error.hint) from error
    except Exception as error:
        raise InputError(f"cannot load '{name}': {_where(modules, error)}") from error


def _where(modules: Sequence[ModuleSource], error: Exception) -> str:
    """Return the error message with the line in the user's files that it came from."""
    files = [module.path for module in modules]
    if isinstance(error, SyntaxError):
        lines, message = [(error.filename, error.lineno)], error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [(f.filename, f.lineno) for f in frames if f.filename in files]
        message = f"{type(error).__name__}: {error}"
    if not lines:
        return message
    file, line = lines[-1]
    beside = f"{Path(file).name}, " if file and len(files) > 1 else ""
    return f"{beside}line {line}: {message}"


def _register(module: ModuleType) -> None:
    """Register the passes, output formats, ops and attributes that a module only defines."""
    from xdsl.ir import Data, ParametrizedAttribute
    from xdsl.irdl import IRDLOperation
    from xdsl.passes import ModulePass
    from xdsl.utils.target import Target

    from tcopt.support.registries.registry import OUTPUTS, PASSES, register_definitions

    source = getattr(module, "__file__", None) or module.__name__
    for base, table in ((ModulePass, PASSES), (Target, OUTPUTS)):
        for cls in _classes(module, base):
            if "name" in vars(cls) and (cls.name not in table or table[cls.name]() is not cls):
                table.add(cls.name, lambda cls=cls: cls, source=source)
    kinds = (IRDLOperation, ParametrizedAttribute, Data)
    definitions = [cls for kind in kinds for cls in _classes(module, kind)]
    register_definitions([d for d in definitions if "name" in vars(d)], source=source)


def _classes(module: ModuleType, base: type[Any]) -> Iterator[Any]:
    """Yield classes that a module defines or imports from its own package."""
    package = module.__name__.partition(".")[0]
    for value in list(vars(module).values()):
        if not isinstance(value, type) or not issubclass(value, base):
            continue
        origin = value.__module__
        beside = origin.partition(".")[0] == package and package not in COVERED
        if origin == module.__name__ or beside:
            yield value
