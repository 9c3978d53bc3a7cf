"""Parallel digest of large data: a hash of the hashes of its chunks.

Equal bytes have equal digests, whether they are in one buffer, in several, or in a file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tcopt.support.processes.threads import map_side_by_side

Bytes: TypeAlias = "bytes | bytearray | memoryview"

DIGEST_BYTES = 32
CHUNK = 1 << 20
"""Chunk size in bytes, large enough that threads do not wait for each other."""

_CACHED = 1 << 18
"""Read size in bytes, so that data is hashed while it is in L2."""


def digest_of(buffers: Sequence[Bytes]) -> bytes:
    """Return the digest of the concatenation of some buffers."""
    views = [memoryview(buffer) for buffer in buffers]
    starts: list[int] = []
    size = 0
    for view in views:
        starts.append(size)
        size += view.nbytes

    def chunk(begin: int) -> bytes:
        state, end = _state(), min(begin + CHUNK, size)
        for start, view in zip(starts, views, strict=True):
            if start < end and begin < start + view.nbytes:
                state.update(view[max(begin - start, 0) : end - start])
        return state.digest()

    return combined(chunk, size)


def read_with_digest(descriptor: int, into: memoryview) -> bytes:
    """Fill a buffer from the start of a file; return the digest of the bytes read.

    Raises:
        EOFError: the file is shorter.
    """

    def chunk(begin: int) -> bytes:
        state = _state()
        position, end = begin, min(begin + CHUNK, into.nbytes)
        while position < end:
            part = into[position : min(position + _CACHED, end)]
            count = os.preadv(descriptor, [part], position)
            if not count:
                raise EOFError
            state.update(part[:count])
            position += count
        return state.digest()

    return combined(chunk, into.nbytes)


def digest_of_file(descriptor: int, size: int) -> bytes:
    """Return the digest of the first `size` bytes of a file.

    Raises:
        EOFError: the file is shorter.
    """

    def chunk(begin: int) -> bytes:
        state, buffer = _state(), memoryview(bytearray(min(_CACHED, size)))
        position, end = begin, min(begin + CHUNK, size)
        while position < end:
            count = os.preadv(descriptor, [buffer[: end - position]], position)
            if not count:
                raise EOFError
            state.update(buffer[:count])
            position += count
        return state.digest()

    return combined(chunk, size)


def combined(chunk: Callable[[int], bytes], size: int) -> bytes:
    """Combine chunk hashes to the digest of `size` bytes; `chunk` hashes the chunk at an offset."""
    starts = range(0, size, CHUNK)
    state = _state()
    state.update(f"{size}\n".encode())
    for part in _hashes(chunk, starts):
        state.update(part)
    return state.digest()


def _hashes(chunk: Callable[[int], bytes], starts: range) -> list[bytes]:
    return map_side_by_side(chunk, starts, _threads())


def _state() -> Any:
    # Processors have SHA-256 instructions, which make it twice as fast as the other hashes.
    return hashlib.sha256()


def _threads() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
