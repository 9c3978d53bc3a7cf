"""Whether the source of a plugin says all that its code does.

What is kept on disk and what other processes are given is told apart by a hash of the plugin's
source. That is enough if nothing else decides what its code does: no module that the hash does not
cover, no file, no environment, no chance. This looks for the ordinary ways to any of these; with
one of them, nothing is kept or given away, as the plugin may do something else next time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

COVERED = ("tcopt", "xdsl", "numpy", "ml_dtypes", "onnx", "llvmlite")
"""Packages that keys tell the state of."""

_STANDARD = frozenset(
    {"__future__", "abc", "bisect", "cmath", "collections", "contextlib", "contextvars", "copy"}
    | {"dataclasses", "decimal", "enum", "fractions", "functools", "heapq", "itertools", "math"}
    | {"numbers", "operator", "re", "statistics", "string", "struct", "textwrap", "types"}
    | {"typing", "typing_extensions", "warnings"}
)
"""Modules of Python that give what they are asked for, the same each time."""

_BUILTINS = frozenset(
    {"open", "exec", "eval", "compile", "input", "__import__", "globals", "locals", "id", "hash"}
)
_OUTWARD = frozenset(
    {"import_module", "environ", "getenv", "urandom", "open_file", "read_text", "read_bytes"}
    | {"fromfile", "loadtxt", "genfromtxt", "memmap", "default_rng", "modules"}
)
"""Names of functions that ask files, the environment, or for code."""

_LOADERS = ("np", "numpy", "onnx")
_OUTWARD_PARTS = ("random",)
"""Modules within covered packages that do not give the same each time."""


def outside_influence(source: bytes, package: str = "") -> str | None:
    """What beside the source may decide what a plugin's code does; None if nothing is seen.

    Args:
        package: the one that holds the module, where others of the outermost one are hashed, too.
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
                yield f"line {line} imports {module or 'a module beside it'}"
        name = _asked(node)
        if name:
            yield f"line {line} uses {name}"


def imported_modules(node: ast.AST, package: str = "") -> list[str]:
    """Full names of what a statement imports: of modules, or of what lies in one.

    Args:
        package: the one that holds the module; without it, what lies beside has no name.
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
    """The name by which a node asks for what is outside; empty if it does not."""
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
