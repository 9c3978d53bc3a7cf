"""What identifies this version of the compiler: equal input and equal version, equal code."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tcopt.backends.llvm.registry import emit_rules
from tcopt.schedules.rules import rules_for

_ROOT = Path(__file__).parent.parent
_FOLDERS = ("backends", "compiler", "dialects", "passes", "schedules", "support")
"""Where a kernel's code comes from; the text of every file in them is part of the version."""

_LIBRARIES = ("tcopt", "xdsl", "llvmlite", "numpy")


@cache
def fingerprint() -> str:
    """A hash over the compiler's sources and the versions of the libraries that it uses."""
    state = hashlib.blake2b(digest_size=16)
    for name in _LIBRARIES:
        state.update(f"{name} {_version(name)}\n".encode())
    for folder in _FOLDERS:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            state.update(f"{path.relative_to(_ROOT)}\n".encode())
            state.update(path.read_bytes())
    return state.hexdigest()


def is_extended(target_kind: str) -> bool:
    """Whether this process has schedule or emit rules from outside of the package.

    What they make is not told by the fingerprint, and other processes do not have them.
    """
    own = __name__.partition(".")[0] + "."
    rules = (type(rule) for rule in rules_for(target_kind))
    return not all(r.__module__.startswith(own) for r in (*rules, *emit_rules().values()))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
