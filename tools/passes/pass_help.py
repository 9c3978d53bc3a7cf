"""Help for passes: a list by level with one line each, or one pass with its options."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping

from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import RewritePattern
from xdsl.utils.hints import type_repr

from tcopt.definitions import own_passes
from tcopt.support.errors import InputError
from tcopt.support.registries.registry import PASSES, PassFactory
from tcopt.support.suggestions import suggest

_LEVELS = ("graph", "te", "loop", "kernel")
_OWN = "tcopt."
_WALK = re.compile(r"^A walk by hand(?::|,) (.+?\.)$", re.MULTILINE | re.DOTALL)


def pass_list(passes: Mapping[str, PassFactory]) -> str:
    """List all passes: those of the package by level and those of plugins, with a line of
    description, and the names of xDSL's.
    """
    groups: dict[str, list[type[ModulePass]]] = {}
    for name in sorted({*own_passes(), *PASSES}):
        cls = passes[name]()
        groups.setdefault(folder_of(cls), []).append(cls)
    lines: list[str] = []
    for folder in sorted(groups, key=reading_order):
        lines += ["", f"{folder}:"]
        width = max(len(cls.name) for cls in groups[folder])
        for cls in groups[folder]:
            first = documentation(cls).partition("\n")[0]
            lines.append(f"  {cls.name:<{width}}  {first}".rstrip())
    others = sorted(passes.keys() - PASSES.keys())
    lines += ["", "of xDSL:", *(f"  {name}" for name in others)]
    return "\n".join(lines[1:])


def pass_help(name: str, passes: Mapping[str, PassFactory]) -> str:
    """Return the documentation of a pass, with its options.

    Raises:
        InputError: there is no such pass.
    """
    if name not in passes:
        hint = suggest(name, passes) or "--list-passes has the names"
        raise InputError(f"there is no pass '{name}'", hint=hint)
    cls = passes[name]()
    options = "\n".join(option_lines(cls))
    if "Options:" in documentation(cls) or not options:
        title = "" if options else "It takes no options."
    else:
        title = "Options:"
    place = f"{cls.name} ({folder_of(cls)})"
    parts = [place, documentation(cls), title, options]
    return "\n\n".join(part for part in parts if part)


def option_lines(cls: type[ModulePass]) -> Iterator[str]:
    """Yield the options of a pass, with types and defaults."""
    for field in dataclasses.fields(cls):
        if not field.init or field.name == "name":
            continue
        default = "" if field.default is dataclasses.MISSING else f" (default `{field.default}`)"
        yield f"- `{field.name.replace('_', '-')}`: {type_repr(field.type)}{default}"


def patterns_of(cls: type[ModulePass]) -> list[str]:
    """Return the names of the rewrite patterns in a pass's file, including imported ones."""
    names = vars(sys.modules[cls.__module__])
    return sorted(
        name
        for name, found in names.items()
        if isinstance(found, type)
        and issubclass(found, RewritePattern)
        and found is not RewritePattern
        and not name.startswith("_")
    )


def reason_for_walk(cls: type[ModulePass]) -> str:
    """Return the reason for a pass without patterns, from `A walk by hand: ...`, or `""`."""
    text = inspect.getdoc(sys.modules[cls.__module__]) or ""
    found = _WALK.search(text)
    return " ".join(found[1].split()) if found else ""


def folder_of(cls: type) -> str:
    """Return the origin of a pass: a folder of the package, xDSL, or a plugin."""
    parts = cls.__module__.split(".")
    if cls.__module__.startswith(_OWN):
        return "/".join(parts[1:-1][:2])
    return "xDSL" if parts[0] == "xdsl" else "plugins"


def reading_order(folder: str) -> tuple[int, str]:
    """Return a key that sorts folders in the order of lowering, plugins last."""
    level = folder.split("/")[-1]
    last = len(_LEVELS) + (folder == "plugins")
    return (_LEVELS.index(level) if level in _LEVELS else last, folder)


def documentation(cls: type) -> str:
    """Return the docstring of a class itself, without indentation."""
    # Bases' docstrings are not inherited, and the signature of a dataclass is not shown.
    text = cls.__dict__.get("__doc__") or ""
    return inspect.cleandoc(text) if text and not text.startswith(f"{cls.__name__}(") else ""
