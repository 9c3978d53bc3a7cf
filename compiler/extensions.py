"""Rules that a program has added to those of the package."""

from __future__ import annotations

import sys
from collections.abc import Iterable

_REGISTRIES = (
    "tcopt.schedules.rules",
    "tcopt.backends.llvm.registry",
    "tcopt.frontends.onnx.registry",
)
"""Modules whose `registered()` gives all that was registered with them so far."""


def is_extended() -> bool:
    """Whether this process has schedule rules, emit rules or ONNX operators of its own.

    What they make is not told by the fingerprint, and other processes do not have them.
    A registry that was not imported has nothing but the package's own.
    """
    loaded = (sys.modules.get(name) for name in _REGISTRIES)
    return any(map(_has_foreign, (module.registered() for module in loaded if module is not None)))


def _has_foreign(entries: Iterable[object]) -> bool:
    own = __name__.partition(".")[0] + "."
    return not all(_home(entry).startswith(own) for entry in entries)


def _home(entry: object) -> str:
    """The module that defines a function, or the class of an object."""
    home = getattr(entry, "__module__", None)
    return home if isinstance(home, str) else type(entry).__module__
