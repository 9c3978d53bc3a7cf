"""Source files of plugins, and a static check that they fully determine a plugin's behaviour.

The files of a plugin are its own module and the modules that it imports directly or indirectly from
its package or, for a single file, from its folder. Cache keys include a hash of them. That suffices
only if nothing else affects the plugin: other modules, files, the environment, or random numbers.
The check looks for common uses of these. If there is one, results are neither cached nor computed
in worker processes, because the plugin may behave differently next time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

COVERED = ("tcopt", "xdsl", "numpy", "ml_dtypes", "onnx", "llvmlite")
"""Packages whose version is part of cache keys."""

_STANDARD = frozenset(
    {"__future__", "abc", "bisect", "cmath", "collections", "contextlib", "contextvars", "copy"}
    | {"dataclasses", "decimal", "enum", "fractions", "functools", "heapq", "itertools", "math"}
    | {"numbers", "operator", "re", "statistics", "string", "struct", "textwrap", "types"}
    | {"typing", "typing_extensions", "warnings"}
)
"""Deterministic modules of the standard library."""

_KNOWN = _STANDARD.union(COVERED)

_BUILTINS = frozenset(
    {"open", "exec", "eval", "compile", "input", "__import__", "globals", "locals", "id", "hash"}
)
_OUTWARD = frozenset(
    {"import_module", "environ", "getenv", "urandom", "open_file", "read_text", "read_bytes"}
    | {"fromfile", "loadtxt", "genfromtxt", "memmap", "default_rng", "modules"}
)
"""Names of functions that access files, the environment or code."""

_LOADERS = ("np", "numpy", "onnx")
_OUTWARD_PARTS = ("random",)
"""Nondeterministic modules within covered packages."""

_PACKAGE = "/__init__.py"


@dataclass(frozen=True)
class PluginSource:
    """Sources of a plugin, which can be loaded from another folder or in another process.

    Attributes:
        module: full name of the plugin's module; empty for a single file, the first of `files`.
        function: function of the module to call after the import; empty for none.
        files: content of the files by their path relative to a folder of the import path.
        influence: what else affects the plugin; None if nothing was found.
    """

    module: str
    function: str
    files: Mapping[str, bytes]
    influence: str | None = None

    @property
    def digest(self) -> str:
        """Hash of the sources."""
        state = blake2b(f"{self.module}:{self.function}\n".encode(), digest_size=20)
        for path, code in self.files.items():
            state.update(f"{path} {len(code)}\n".encode())
            state.update(code)
        return state.hexdigest()

    @property
    def modules(self) -> dict[str, str]:
        """Paths of the files by the names of their modules; a single file has no entry."""
        paths = list(self.files)[0 if self.module else 1 :]
        names = (path.removesuffix(_PACKAGE).removesuffix(".py") for path in paths)
        return {name.replace("/", "."): path for name, path in zip(names, paths, strict=True)}

    def facts(self) -> list[Any]:
        """Return the sources as JSON values, the inverse of `of`."""
        files = {path: code.decode("latin-1") for path, code in self.files.items()}
        return [self.module, self.function, files, self.influence]

    @staticmethod
    def of(facts: Sequence[Any]) -> PluginSource:
        """Return the sources that `facts` has encoded."""
        module, function, files, influence = facts
        codes = {path: text.encode("latin-1") for path, text in files.items()}
        return PluginSource(module, function, codes, influence)


def file_source(path: Path) -> PluginSource:
    """Read the sources of a plugin that is a single file.

    Raises:
        OSError: the file cannot be read.
    """
    folder = path.parent

    def covers(root: str) -> bool:
        return (folder / f"{root}.py").is_file() or (folder / f"{root}{_PACKAGE}").is_file()

    reader = _Reader(folder, covers)
    reader.read(path.name)
    reader.follow()
    return PluginSource("", "", reader.files, reader.influence)


def module_source(folder: Path, module: str, function: str = "") -> PluginSource:
    """Read the sources of a plugin that is a top-level module or a module of a package.

    Args:
        folder: folder of the module or package.
    """
    root = module.partition(".")[0]
    reader = _Reader(folder, lambda other: other == root)
    reader.waiting.append(module)
    reader.follow()
    found = any(name == module for name in PluginSource(module, "", reader.files).modules)
    influence = reader.influence if found else "its source was not found"
    return PluginSource(module, function, reader.files, influence)


class _Reader:
    """Reads modules and what they import from the same plugin; nothing is executed.

    Args:
        folder: folder of the top-level modules and packages.
        covers: whether a top-level module or package is part of the plugin.

    Attributes:
        files: contents of the files by path.
        influence: what else affects the modules; None if nothing was found.
        waiting: names of modules to be read, or of objects in modules.
    """

    def __init__(self, folder: Path, covers: Callable[[str], bool]):
        self.files: dict[str, bytes] = {}
        self.influence: str | None = None
        self.waiting: list[str] = []
        self._folder = folder
        self._covers = covers

    def follow(self) -> None:
        """Read the modules that are waiting and all that they import."""
        while self.waiting:
            parts = self.waiting.pop().split(".")
            for count in range(1, len(parts) + 1):
                place = "/".join(parts[:count])
                paths = (place + end for end in (*EXTENSION_SUFFIXES, _PACKAGE, ".py"))
                found = next((path for path in paths if (self._folder / path).is_file()), None)
                if found is not None and not found.endswith(".py"):
                    self.influence = f"{found} is not Python source"
                elif found is not None and found not in self.files:
                    self.read(found)

    def read(self, path: str) -> None:
        """Read a file, and find its imports and influences."""
        code = self.files[path] = (self._folder / path).read_bytes()
        module = path.removesuffix(_PACKAGE).removesuffix(".py")
        package = module if path.endswith(_PACKAGE) else module.rpartition("/")[0]
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError):
            self.influence = f"{path} is not Python"
            return
        for node in ast.walk(tree):
            outward = _outward(node)
            for name in _imported(node, package.replace("/", ".")):
                root, *rest = name.split(".")
                if root and root not in _KNOWN and self._covers(root):
                    self.waiting.append(name)
                elif root not in _KNOWN or any(part in _OUTWARD_PARTS for part in rest):
                    outward = f"imports {name or 'a module next to it'}"
            if outward:
                line = getattr(node, "lineno", 0)
                self.influence = self.influence or f"line {line} of {path} {outward}"


def _imported(node: ast.AST, package: str) -> list[str]:
    """Return the full names of a statement's imports: modules, or names in modules.

    Args:
        package: package of the module; relative imports are unnamed without it.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    origin = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if package else []
        origin = ".".join([*above, *filter(None, [origin])]) if above else ""
    return [f"{origin}.{alias.name}" for alias in node.names] if origin else [""]


def _outward(node: ast.AST) -> str:
    """Return how a node accesses the outside; empty if it does not."""
    match node:
        case ast.Name(id=name) if name in _BUILTINS or name in _OUTWARD:
            return f"uses {name}"
        case ast.Attribute(attr=name) if name in _OUTWARD or name in _OUTWARD_PARTS:
            return f"uses {name}"
        case ast.Attribute(value=ast.Name(id=owner), attr="load") if owner in _LOADERS:
            return f"uses {owner}.load"
        case ast.ImportFrom() | ast.Import():
            names = (alias.name.rpartition(".")[2] for alias in node.names)
            return next((f"uses {name}" for name in names if name in _OUTWARD), "")
        case _:
            return ""
