"""Static check that the source of a plugin fully determines its behaviour.

Cache keys include a hash of the plugin's source. That suffices only if nothing else affects its
behaviour: modules outside the hash, files, the environment, or random numbers. This check looks for
common uses of these. If there is one, results are neither cached nor computed in other processes,
because the plugin may behave differently next time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

COVERED = ("tcopt", "xdsl", "numpy", "ml_dtypes", "onnx", "llvmlite")
"""Packages whose version is part of cache keys."""

_STANDARD = frozenset(
    {"__future__", "abc", "bisect", "cmath", "collections", "contextlib", "contextvars", "copy"}
    | {"dataclasses", "decimal", "enum", "fractions", "functools", "heapq", "itertools", "math"}
    | {"numbers", "operator", "re", "statistics", "string", "struct", "textwrap", "types"}
    | {"typing", "typing_extensions", "warnings"}
)
"""Deterministic modules of the standard library."""

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


def outside_influence(source: bytes, package: str = "") -> str | None:
    """Return what else can affect a plugin apart from its source; None if nothing is found.

    Args:
        package: package of the module, all of whose modules are hashed.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return "it is not Python"
    return next(_influences(tree, package), None)


def _influences(tree: ast.AST, package: str) -> Iterator[str]:
    covered = _STANDARD.union(COVERED, filter(None, [package.partition(".")[0]]))
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for module in imported_modules(node, package):
            root, *rest = module.split(".")
            if root not in covered or any(part in _OUTWARD_PARTS for part in rest):
                yield f"line {line} imports {module or 'a module next to it'}"
        name = _asked(node)
        if name:
            yield f"line {line} uses {name}"


def imported_modules(node: ast.AST, package: str = "") -> list[str]:
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


def _asked(node: ast.AST) -> str:
    """Return the name by which a node accesses the outside; empty if it does not."""
    match node:
        case ast.Name(id=name) if name in _BUILTINS or name in _OUTWARD:
            return name
        case ast.Attribute(attr=name) if name in _OUTWARD or name in _OUTWARD_PARTS:
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr="load") if owner in _LOADERS:
            return f"{owner}.load"
        case ast.ImportFrom() | ast.Import():
            names = (alias.name.rpartition(".")[2] for alias in node.names)
            return next((name for name in names if name in _OUTWARD), "")
        case _:
            return ""
