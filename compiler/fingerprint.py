"""What identifies this version of the compiler: equal input and equal version, equal code."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tcopt.support.integrity import Stamp, sources, stamp

_ROOT = Path(__file__).parent.parent
_TOOLS = ("tools", "tuner", "quantization")
"""Folders of the package that no program depends on."""

_FRONT_ENDS = ("frontends",)
"""Folders that programs depend on, but not their kernels."""

_COMPILED = "__pycache__"
_LIBRARIES = ("tcopt", "xdsl", "llvmlite", "numpy")

_hashed: dict[str, Stamp | None] = {}
"""The files that are part of the fingerprint, as they were when they were read for it."""


@cache
def fingerprint() -> str:
    """A hash over what kernels are made by: the compiler's files, the libraries' versions."""
    folders = {f.name for f in os.scandir(_ROOT) if f.is_dir()}
    return _hash(folders.difference(_TOOLS, _FRONT_ENDS, (_COMPILED,)), _LIBRARIES)


@cache
def program_fingerprint() -> str:
    """A hash over what whole programs are made by."""
    return f"{fingerprint()} {_hash(_FRONT_ENDS, ('onnx', 'ml_dtypes'))}"


def is_current(*, on_disk: bool = False) -> bool:
    """Whether the code in this process is what the fingerprint stands for.

    It is not when files of the package were changed after some of them had been imported.

    Args:
        on_disk: whether the files must be the same now, too, as other processes import them.
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
    """All files of a folder of the package, whatever they hold."""
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if name != _COMPILED]
        yield from (os.path.join(place, name) for name in names)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
