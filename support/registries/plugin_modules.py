"""Source modules of plugins, and an importer that runs exactly the sources that were read.

A plugin is a file, or a module of a package with its direct and indirect imports from the same
package. Sources are read once: what was read is executed, hashed and sent to other processes,
independent of byte-code caches and of later changes to the files.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tcopt.support.registries.plugin_sources import imported_modules, outside_influence

_PACKAGE_FILE = "__init__.py"


@dataclass(frozen=True)
class ModuleSource:
    """A module: its full name, its file, and the content that was read.

    A folder without `__init__.py` is an empty package.
    """

    name: str
    path: str
    code: bytes

    @property
    def is_package(self) -> bool:
        """Whether other modules can be nested in it."""
        return Path(self.path).name == _PACKAGE_FILE


@dataclass(frozen=True)
class PluginSource:
    """All sources of a plugin.

    Attributes:
        modules: the plugin's own module, followed by those that it imports from its package.
        function: function of the module to call after the import; empty for none.
        keyed: whether the sources fully determine what the plugin does.
    """

    modules: tuple[ModuleSource, ...]
    function: str = ""
    keyed: bool = True

    @property
    def name(self) -> str:
        """Full name of the plugin's own module."""
        return self.modules[0].name

    @property
    def digest(self) -> str:
        """Hash of the sources; independent of the path of a single file."""
        state = blake2b(f"{self.function} {len(self.modules)}\n".encode(), digest_size=20)
        for module in self.modules:
            name = module.name if len(self.modules) > 1 else ""
            state.update(f"{name} {len(module.code)}\n".encode())
            state.update(module.code)
        return state.hexdigest()


def file_module(path: Path, code: bytes) -> ModuleSource:
    """Return the module for a standalone file."""
    place = str(path.resolve())
    digest = blake2b(place.encode(), digest_size=4).hexdigest()
    return ModuleSource(f"tcopt_user_{path.stem}_{digest}", place, code)


def package_modules(name: str) -> tuple[ModuleSource, ...] | None:
    """Return a module and its imports from its package; None if one of them is not Python source.

    Nothing is imported.
    """
    root = name.partition(".")[0]
    search = _search_paths(root)
    found: dict[str, ModuleSource] = {}
    waiting = [name]
    while waiting:
        wanted = waiting.pop()
        for parent in _parents(wanted):
            if parent in found:
                continue
            module = _find(parent, search)
            if module is None:
                # Names imported from a module need not be modules.
                break
            if not module.path:
                return None
            found[parent] = module
            waiting += _imports(module, root)
    if name not in found:
        return None
    return found[name], *(found[other] for other in sorted(found.keys() - {name}))


def package_influence(modules: Iterable[ModuleSource]) -> str | None:
    """Return what can affect modules of a package apart from their sources; None if nothing."""
    for module in modules:
        reason = outside_influence(module.code, package=_package_of(module))
        if reason is not None:
            return f"{reason} in {module.name}"
        if module.name in sys.modules and not FINDER.has_run(module):
            return f"{module.name} was imported before it was loaded"
    return None


class _Finder:
    """Import hook for modules whose sources are given; it takes precedence over Python's."""

    def __init__(self) -> None:
        self._given: dict[str, ModuleSource] = {}
        self._run: dict[str, ModuleSource] = {}

    def give(self, modules: Iterable[ModuleSource]) -> None:
        """Use these sources for all later imports of the modules."""
        self._given |= {module.name: module for module in modules}
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)  # pyright: ignore[reportArgumentType]

    def drop(self, name: str) -> None:
        """Stop providing a module, so that a later import executes it again."""
        self._given.pop(name, None)
        self._run.pop(name, None)
        sys.modules.pop(name, None)
        if not self._given and self in sys.meta_path:
            sys.meta_path.remove(self)  # pyright: ignore[reportArgumentType]

    def has_run(self, module: ModuleSource) -> bool:
        """Whether the imported module of this name has this source."""
        return self._run.get(module.name) == module

    def ran(self, module: ModuleSource) -> None:
        """Record that the module is being imported."""
        self._run[module.name] = module

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        module = self._given.get(fullname)
        if module is None:
            return None
        folder = [str(Path(module.path).parent)] if module.is_package else None
        return importlib.util.spec_from_file_location(
            fullname, module.path, loader=_Loader(module), submodule_search_locations=folder
        )


class _Loader(SourceFileLoader):
    def __init__(self, module: ModuleSource):
        super().__init__(module.name, module.path)
        self._module = module

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._module.code, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        FINDER.ran(self._module)
        super().exec_module(module)


FINDER = _Finder()


def _search_paths(root: str) -> Sequence[str]:
    """Return the search path of a package, or the file of a top-level module."""
    try:
        spec = importlib.util.find_spec(root)
    except (ImportError, ValueError):
        return ()
    if spec is None:
        return ()
    if spec.submodule_search_locations is not None:
        return list(spec.submodule_search_locations)
    return [spec.origin or ""]


def _parents(name: str) -> Iterator[str]:
    """Yield the names of a module's parent packages and of the module itself."""
    parts = name.split(".")
    return (".".join(parts[: count + 1]) for count in range(len(parts)))


def _find(name: str, search: Sequence[str]) -> ModuleSource | None:
    """Find a module's source; its path is empty if it is not Python source. None if not found."""
    parts = name.split(".")[1:]
    folders: list[Path] = []
    for place in search:
        if place.endswith(".py"):
            return None if parts else _read(name, Path(place))
        base = Path(place, *parts)
        if any(base.with_name(base.name + suffix).is_file() for suffix in EXTENSION_SUFFIXES):
            return ModuleSource(name, "", b"")
        files = (base / _PACKAGE_FILE, base.with_name(f"{base.name}.py"))
        for path in files if parts else files[:1]:
            if path.is_file():
                return _read(name, path)
        if base.is_dir():
            folders.append(base)
    if not folders:
        return None
    # A namespace package that spans several folders is not supported.
    path = str(folders[0] / _PACKAGE_FILE) if len(folders) == 1 else ""
    return ModuleSource(name, path, b"")


def _read(name: str, path: Path) -> ModuleSource:
    try:
        return ModuleSource(name, os.path.abspath(path), path.read_bytes())
    except OSError:
        return ModuleSource(name, "", b"")


def _package_of(module: ModuleSource) -> str:
    """Return the package that relative imports of a module refer to."""
    inside = module.is_package or "." not in module.name
    return module.name if inside else module.name.rpartition(".")[0]


def _imports(module: ModuleSource, root: str) -> Iterator[str]:
    """Yield the full names of a module's imports from its own package."""
    try:
        tree = ast.parse(module.code)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        for name in imported_modules(node, _package_of(module)):
            if name.partition(".")[0] == root:
                yield name
