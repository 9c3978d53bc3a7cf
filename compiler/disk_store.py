"""A bounded folder of entries by key, which any number of processes may use at once.

Each entry is a file, whole or absent: it is written beside its place and renamed. The least
recently used go first. Nothing that goes wrong with the folder fails a compile.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"tcopt-entry-1\n"
_DIGEST = 32
_KEPT_SHARE = 0.8
_FRESH_SECONDS = 60.0
"""A file used this recently is not marked as used again, which saves a write."""

_ABANDONED_SECONDS = 3600.0
_PARTIAL = ".part"
_LARGEST_SHARE = 0.5
"""An entry that would fill more of the store than this is not kept."""

_FREE_SHARE = 0.1
"""Nor is one that would take more than this of what is free on the disk."""


@dataclass(frozen=True)
class StoreUse:
    """How full a store is."""

    entries: int
    bytes: int
    limit: int


class DiskStore:
    """Entries of one kind in a folder, which stores of other kinds may share.

    Args:
        folder: made when something is first written.
        suffix: of the files of this kind.
        limit: the most bytes they may take.
    """

    def __init__(self, folder: Path, suffix: str, limit: int):
        self.folder = folder
        self.suffix = suffix
        self.limit = limit
        self._written = 0

    def path(self, key: str) -> Path:
        """Where the entry of a key is, if there is one."""
        return self.folder / key[:2] / (key[2:] + self.suffix)

    def get(self, key: str) -> bytes | None:
        """The bytes that `put` stored under a key; a damaged entry is removed."""
        try:
            data = self.path(key).read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        body = data[start:]
        if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != _digest(body):
            self.discard(key)
            return None
        self.touch(key)
        return body

    def has(self, key: str) -> bool:
        """Whether something is stored under a key, damaged or not."""
        return self.path(key).exists()

    def put(self, key: str, body: bytes) -> None:
        """Store bytes with a checksum under a key, in place of what was there."""
        self.write(key, lambda stream: stream.write(_MAGIC + _digest(body) + body), len(body))

    def write(self, key: str, fill: Callable[[BinaryIO], object], size: int) -> None:
        """Store what `fill` writes under a key, in place of what was there.

        Args:
            size: about how many bytes that will be.
        """
        path = self.path(key)
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not self._has_room(size):
                return
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=_PARTIAL)
            with os.fdopen(handle, "wb") as stream:
                fill(stream)
            os.replace(temporary, path)
        except OSError:
            if temporary is not None:
                with suppress(OSError):
                    os.unlink(temporary)
            return
        self._written += size

    def touch(self, key: str) -> None:
        """Mark an entry as used."""
        path = self.path(key)
        with suppress(OSError):
            now = time.time()
            if now - path.stat().st_mtime > _FRESH_SECONDS:
                os.utime(path, (now, now))

    def discard(self, key: str) -> None:
        """Forget what is stored under a key."""
        with suppress(OSError):
            self.path(key).unlink()

    def trim(self) -> None:
        """Keep within the limit, if something was written through this object.

        Takes more than is needed away, so that it has nothing to do for some time.
        """
        if not self._written:
            return
        self._written = 0
        files = self._files()
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        for _, size, path in sorted(files):
            if total <= _KEPT_SHARE * self.limit:
                break
            with suppress(OSError):
                path.unlink()
            total -= size

    def clear(self) -> int:
        """Remove every entry; how many there were."""
        files = self._files()
        for _, _, path in files:
            with suppress(OSError):
                path.unlink()
        return len(files)

    def use(self) -> StoreUse:
        """How many entries there are, and how much room they take."""
        files = self._files()
        return StoreUse(len(files), sum(size for _, size, _ in files), self.limit)

    def _has_room(self, size: int) -> bool:
        if size > _LARGEST_SHARE * self.limit:
            return False
        return size <= _FREE_SHARE * shutil.disk_usage(self.folder).free

    def _files(self) -> list[tuple[float, int, Path]]:
        """Time of last use, size and path of each entry; removes what writers left behind."""
        found: list[tuple[float, int, Path]] = []
        for entry in _scan(self.folder):
            with suppress(OSError):
                facts = entry.stat()
                if entry.name.endswith(self.suffix):
                    found.append((facts.st_mtime, facts.st_size, Path(entry.path)))
                elif (
                    entry.name.endswith(_PARTIAL)
                    and time.time() - facts.st_mtime > _ABANDONED_SECONDS
                ):
                    os.unlink(entry.path)
        return found


def _scan(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The files in the folders of a store."""
    try:
        parts = [entry.path for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return
    for part in parts:
        with suppress(OSError):
            yield from list(os.scandir(part))


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST).digest()
