"""Hashes of what a model is made of: its file, bytes or protobuf, and files beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tcopt.support.digests import digest_of, digest_of_file
from tcopt.support.files import open_file

if TYPE_CHECKING:
    from onnx import ModelProto

Source: TypeAlias = "str | Path | bytes | ModelProto"
"""A model: a file, its bytes, or decoded."""

_CLOCK_SECONDS = 0.02
"""A file's time of change has steps of a few milliseconds; two changes within one look alike."""

Stamp = tuple[int, int, int, int, int]


def hash_source(source: Source) -> str | None:
    """A hash of a model's content; None if it cannot be read.

    A file is hashed as its bytes are. Large content is hashed chunk by chunk, on all cores.
    """
    if isinstance(source, (str, Path)):
        return hash_file(Path(source))
    try:
        data = source if isinstance(source, (bytes, bytearray, memoryview)) else _serialized(source)
    except ValueError:  # Larger than protobuf allows.
        return None
    return digest_of([data]).hex()


def hash_file(path: Path) -> str | None:
    """A hash of a file's bytes; None if it cannot be read."""
    try:
        with open_file(path) as stream:
            return digest_of_file(stream.fileno(), os.fstat(stream.fileno()).st_size).hex()
    except (OSError, EOFError, ValueError):
        return None


def stamp(path: Path) -> Stamp | None:
    """What changes when a file is written to; None if there is no such file.

    If the file was written to only now, it waits until another change would show.
    """
    try:
        facts = os.stat(path)
        since = time.time() - facts.st_mtime
        if 0 <= since < _CLOCK_SECONDS:
            time.sleep(_CLOCK_SECONDS - since)
            facts = os.stat(path)
    except (OSError, ValueError):
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def changed_since(paths: Iterable[Path], seconds: float) -> bool:
    """Whether one of some files was written to at or after a time, or cannot be asked."""
    try:
        return any(os.stat(p).st_mtime > seconds - _CLOCK_SECONDS for p in paths)
    except OSError:
        return True


def _serialized(model: ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)
