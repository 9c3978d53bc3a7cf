"""What identifies this version of the compiler: equal input and equal version, equal code."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_KERNEL_FOLDERS = ("backends", "compiler", "dialects", "passes", "schedules", "support")
"""Where a kernel's code comes from; the text of every file in them is part of the version."""

_PROGRAM_FOLDERS = ("frontends", "runtime")
"""What a program comes from beside these."""

_LIBRARIES = ("tcopt", "xdsl", "llvmlite", "numpy")


@cache
def fingerprint() -> str:
    """A hash over what kernels are made by: the compiler's sources, the libraries' versions."""
    return _hash(_KERNEL_FOLDERS, _LIBRARIES)


@cache
def program_fingerprint() -> str:
    """A hash over what whole programs are made by."""
    return f"{fingerprint()} {_hash(_PROGRAM_FOLDERS, ('onnx', 'ml_dtypes'))}"


def _hash(folders: Sequence[str], libraries: Sequence[str]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for name in libraries:
        state.update(f"{name} {_version(name)}\n".encode())
    for folder in folders:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            state.update(f"{path.relative_to(_ROOT)}\n".encode())
            state.update(path.read_bytes())
    return state.hexdigest()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
