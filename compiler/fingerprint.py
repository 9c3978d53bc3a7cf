"""Fingerprint of the compiler's version: equal input and fingerprint give equal code."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tcopt.support.registries.integrity import Stamp, sources, stamp

_ROOT = Path(__file__).parent.parent
_TOOLS = ("tools", "tuner", "quantization")
"""Folders of the package that do not affect programs."""

_FRONT_ENDS = ("frontends",)
"""Folders that affect programs, but not their kernels."""

_COMPILED = "__pycache__"
_LIBRARIES = ("tcopt", "xdsl", "llvmlite", "numpy")

_hashed: dict[str, Stamp | None] = {}
"""Stamps of the files that are part of the fingerprint, taken when they were hashed."""


@cache
def fingerprint() -> str:
    """Return a hash of everything that determines kernels: compiler files, library versions."""
    folders = {f.name for f in os.scandir(_ROOT) if f.is_dir()}
    return _hash(folders.difference(_TOOLS, _FRONT_ENDS, (_COMPILED,)), _LIBRARIES)


@cache
def program_fingerprint() -> str:
    """Return a hash of everything that determines whole programs."""
    return f"{fingerprint()} {_hash(_FRONT_ENDS, ('onnx', 'ml_dtypes'))}"


def is_current(*, on_disk: bool = False) -> bool:
    """Whether the fingerprint matches the code that this process has loaded.

    It does not if files of the package changed after some of them were imported.

    Args:
        on_disk: whether the files must still be unchanged, because other processes import them.
    """
    program_fingerprint()
    if not sources().items() <= _hashed.items():
        return False
    return not on_disk or all(stamp(path) == mark for path, mark in _hashed.items())


def _hash(folders: Collection[str], libraries: Sequence[str]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for name in libraries:
        state.update(f"{name} {_version(name)}\n".encode())
    for path in sorted(path for folder in folders for path in _files(_ROOT / folder)):
        _hashed[path] = stamp(path)
        with open(path, "rb") as stream:
            data = stream.read()
        state.update(f"{os.path.relpath(path, _ROOT)} {len(data)}\n".encode())
        state.update(data)
    return state.hexdigest()


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of all files of a folder of the package, of any type."""
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if name != _COMPILED]
        yield from (os.path.join(place, name) for name in names)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
