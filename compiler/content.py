"""Hashes of a model's content: a file, bytes or protobuf message, and external data files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tcopt.frontends.onnx.model.options import Source
from tcopt.support.files.access import open_file
from tcopt.support.files.digests import digest_of, digest_of_file

if TYPE_CHECKING:
    from onnx import ModelProto

_CLOCK_SECONDS = 0.02
"""Resolution of file modification times; two changes within it cannot be distinguished."""

Stamp = tuple[int, int, int, int, int]


def hash_source(source: Source) -> str | None:
    """Return a hash of a model's content; None if it cannot be read.

    The hash of a file is that of its bytes. Large content is hashed in chunks, on all cores.
    """
    if isinstance(source, (str, Path)):
        return hash_file(Path(source))
    try:
        data = source if isinstance(source, (bytes, bytearray, memoryview)) else _serialized(source)
    except ValueError:  # The message exceeds protobuf's size limit.
        return None
    return digest_of([data]).hex()


def hash_file(path: Path) -> str | None:
    """Return a hash of a file's bytes; None if it cannot be read."""
    try:
        with open_file(path) as stream:
            return digest_of_file(stream.fileno(), os.fstat(stream.fileno()).st_size).hex()
    except (OSError, EOFError, ValueError):
        return None


def stamp(path: Path) -> Stamp | None:
    """Return a stamp that changes whenever a file is written to; None if it does not exist.

    If the file has just been written, this waits until a further write would change the stamp.
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
    """Whether any of the files was modified at or after a time, or is not accessible."""
    try:
        return any(os.stat(p).st_mtime > seconds - _CLOCK_SECONDS for p in paths)
    except OSError:
        return True


def _serialized(model: ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)
