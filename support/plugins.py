"""What a program brings to the compiler: a file or a module, imported when it is asked for.

A plugin registers what it has by the decorators and tables that the package uses itself: passes,
dialects, targets, ONNX handlers, schedule rules, intrinsics, rules of emitters, meanings. Passes,
forms of output, ops and attributes that it only defines are registered for it.

A file that has changed since is loaded anew, and what it registered before is forgotten.

What a file registers is told by the keys of all that is kept on disk, and other processes load it,
too, if its source says all that it does, see `plugin_sources`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tcopt.support import integrity
from tcopt.support.errors import InputError
from tcopt.support.plugin_sources import outside_influence
from tcopt.support.registration import forget, told_by_keys
from tcopt.support.remarks import notice
from tcopt.support.suggestions import suggest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tcopt.plugins"
"""The group of entry points by which an installed package names its plugins."""

_SUFFIX = ".py"


@dataclass(frozen=True)
class PluginSource:
    """A file, and what was read from it."""

    path: str
    code: bytes


@dataclass(frozen=True)
class _Loaded:
    digest: bytes
    module: ModuleType
    source: PluginSource
    influence: str | None


_files: dict[Path, _Loaded] = {}
_modules: dict[str, ModuleType] = {}


def load_plugins(names: Iterable[str | Path]) -> list[ModuleType]:
    """Load plugins in order; those that are loaded already are left as they are.

    Args:
        names: of each the path of a `.py` file, the name of an entry point in the group
            `tcopt.plugins`, or the name of a module that can be imported.
    Returns:
        Their modules.
    Raises:
        InputError: there is no such plugin, or it cannot be imported.
    """
    return [_load(name) for name in names]


@contextmanager
def plugins_loaded(names: Iterable[str | Path]) -> Generator[None]:
    """Load plugins for as long as the context lasts; those loaded before stay."""
    before = {*_files, *_modules}
    try:
        load_plugins(names)
        yield
    finally:
        for loaded in [name for name in (*_files, *_modules) if name not in before]:
            unload(loaded)


def told_sources() -> list[PluginSource]:
    """The loaded files that are all of what they do, in order: later ones see earlier ones."""
    return [loaded.source for loaded in _files.values() if loaded.influence is None]


def take_sources(sources: Iterable[PluginSource]) -> None:
    """Have just these files loaded, as another process has them."""
    wanted = list(sources)
    if told_sources() == wanted:
        return
    for path in list(_files):
        unload(path)
    for source in wanted:
        _take(Path(source.path), Path(source.path), source.code)


def unload(name: str | Path) -> None:
    """Forget what a plugin has registered in its own file; nothing if it was not loaded."""
    module = _modules.pop(name, None) if isinstance(name, str) else None
    known = _files.pop(Path(name).resolve(), None)
    if known is not None:
        module = known.module
    if module is not None:
        forget(module.__file__ or "")
        integrity.forget(module)
        # So that its code runs once more when it is loaded again.
        sys.modules.pop(module.__name__, None)


def _load(name: str | Path) -> ModuleType:
    text = str(name)
    if isinstance(name, Path) or text.endswith(_SUFFIX) or "/" in text:
        return _load_file(Path(text))
    return _load_module(text)


def _load_file(path: Path) -> ModuleType:
    try:
        code = path.read_bytes()
    except IsADirectoryError:
        raise InputError(f"'{path}' is a folder, no plugin") from None
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}' to load") from None
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror}") from None
    place, digest = path.resolve(), blake2b(code).digest()
    known = _files.get(place)
    if known is not None and known.digest == digest:
        return known.module
    if known is not None:
        unload(place)
    return _take(path, place, code)


def _take(path: Path, place: Path, code: bytes) -> ModuleType:
    """Run what was read from a file."""
    name = f"tcopt_user_{path.stem}_{blake2b(str(place).encode(), digest_size=4).hexdigest()}"
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise InputError(f"'{path}' is not a Python file", hint="its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name while they are being defined.
    sys.modules[name] = module

    def run() -> ModuleType:
        # What was read is what runs, whatever is kept compiled beside it.
        exec(compile(code, str(place), "exec", dont_inherit=True), module.__dict__)
        _register(module)
        return module

    try:
        _guarded(str(path), place, run)
    except InputError:
        forget(str(place))
        raise
    influence, digest = outside_influence(code), blake2b(code).digest()
    if influence is None:
        told_by_keys(str(place), digest.hex())
        integrity.note(module)
    else:
        notice("cache", path.name, f"not told by its source alone: {influence}")
    source = PluginSource(str(place), code)
    _files[place] = _Loaded(digest, module, source, influence)
    return module


def _load_module(name: str) -> ModuleType:
    if name in _modules:
        return _modules[name]
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in entry_points(group=GROUP)}

    def run() -> ModuleType:
        module = _import(name, found)
        _register(module)
        return module

    _modules[name] = _guarded(name, None, run)
    return _modules[name]


def _import(name: str, entries: dict[str, EntryPoint]) -> ModuleType:
    if name in entries:
        value: Any = entries[name].load()
        # An entry point is a module, or a function of one that registers.
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


def _guarded(name: str, file: Path | None, run: Callable[[], ModuleType]) -> ModuleType:
    try:
        return run()
    except InputError as error:
        raise InputError(f"cannot load '{name}': {error.message}", hint=error.hint) from error
    except Exception as error:
        raise InputError(f"cannot load '{name}': {_where(file, error)}") from error


def _where(file: Path | None, error: Exception) -> str:
    """The error with the line of the user's file it came from."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if file is not None and Path(f.filename) == file]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"


def _register(module: ModuleType) -> None:
    """Make known what a module defines and registers nowhere: passes, and ops and attributes."""
    from xdsl.ir import Data, ParametrizedAttribute
    from xdsl.irdl import IRDLOperation
    from xdsl.passes import ModulePass
    from xdsl.utils.target import Target

    from tcopt.support.registry import OUTPUTS, PASSES, register_definitions

    source = getattr(module, "__file__", None) or module.__name__
    for base, table in ((ModulePass, PASSES), (Target, OUTPUTS)):
        for cls in _classes(module, base):
            if "name" in vars(cls) and (cls.name not in table or table[cls.name]() is not cls):
                table.add(cls.name, lambda cls=cls: cls, source=source)
    kinds = (IRDLOperation, ParametrizedAttribute, Data)
    definitions = [cls for kind in kinds for cls in _classes(module, kind)]
    register_definitions([d for d in definitions if "name" in vars(d)], source=source)


def _classes(module: ModuleType, base: type[Any]) -> Iterator[Any]:
    for value in list(vars(module).values()):
        if not isinstance(value, type) or not issubclass(value, base):
            continue
        if value.__module__ == module.__name__:
            yield value
