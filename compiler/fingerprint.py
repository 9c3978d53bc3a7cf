"""Fingerprint of the compiler's version: equal input and fingerprint give equal code."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tcopt import IMPORTED_NS
from tcopt.support.registries.registration import extensions

_ROOT = Path(__file__).parent.parent
_TOOLS = ("tools", "tuner", "quantization", "torch")
"""Folders of the package that do not affect programs."""

_FRONT_ENDS = ("frontends",)
"""Folders that affect programs, but not their kernels."""

_COMPILED = "__pycache__"
_LIBRARIES = ("tcopt", "xdsl", "llvmlite", "numpy")

_hashed: dict[str, int] = {}
"""Times of the last change of the files that are part of the fingerprint, when they were hashed."""


@cache
def fingerprint() -> str:
    """Return a hash of everything that determines kernels: compiler files, library versions."""
    names = {entry.name for entry in os.scandir(_ROOT)}
    return _hash(names.difference(_TOOLS, _FRONT_ENDS, (_COMPILED,)), _LIBRARIES)


@cache
def program_fingerprint() -> str:
    """Return a hash of everything that determines whole programs."""
    return f"{fingerprint()} {_hash(_FRONT_ENDS, ('onnx', 'ml_dtypes'))}"


def obstacles(*, on_disk: bool = False) -> Iterator[str]:
    """Yield reasons why cache keys do not cover this process's compiler; empty if they do.

    Args:
        on_disk: whether the package's files must still be unchanged, because other processes import
            them.
    """
    yield from extensions()
    if not is_current(on_disk=on_disk):
        yield "files of the package changed after this process imported some of them"


def is_plain(*, on_disk: bool = False) -> bool:
    """Whether cache keys fully determine the code that this process generates."""
    return next(obstacles(on_disk=on_disk), None) is None


def is_current(*, on_disk: bool = False) -> bool:
    """Whether the package's files did not change between its import and their hash.

    Args:
        on_disk: whether they must not have changed until now.
    """
    program_fingerprint()
    times = map(_changed_ns, _hashed) if on_disk else _hashed.values()
    return all(time <= IMPORTED_NS for time in times)


def _hash(names: Collection[str], libraries: Sequence[str]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for name in libraries:
        state.update(f"{name} {_version(name)}\n".encode())
    for path in sorted(path for name in names for path in _files(_ROOT / name)):
        # Python's file objects would take most of the time.
        descriptor = os.open(path, os.O_RDONLY)
        try:
            facts = os.fstat(descriptor)
            data = os.read(descriptor, facts.st_size + 1)
        finally:
            os.close(descriptor)
        _hashed[path] = facts.st_ctime_ns
        state.update(f"{path.removeprefix(str(_ROOT))} {len(data)}\n".encode())
        state.update(data)
    return state.hexdigest()


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of all files of a folder of the package, of any type, or of one file."""
    if folder.is_file():
        yield str(folder)
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if name != _COMPILED]
        yield from (os.path.join(place, name) for name in names)


def _changed_ns(path: str) -> int:
    """Return the time of a file's last change, by whatever means; in the future if it is gone."""
    try:
        return os.stat(path).st_ctime_ns
    except OSError:
        return sys.maxsize


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
