"""Compiled kernels on disk, found by the key of their unit.

A folder of files, each whole or absent: they are written beside their place and renamed, so
that any number of processes may use it at once. Every file carries a checksum; a damaged one is
removed and counts as absent. Nothing that goes wrong with the folder fails a compile.

Environment:
    TCOPT_CACHE_DIR: the folder, by default `tcopt` in `$XDG_CACHE_HOME` or `~/.cache`.
    TCOPT_CACHE: `0` turns the cache off.
    TCOPT_CACHE_SIZE: the most megabytes it may take, by default 512.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SUFFIX = ".kernel"
_MAGIC = b"tcopt-kernel-1\n"
_DIGEST = 32
_MEGABYTE = 1 << 20
_DEFAULT_MEGABYTES = 512
_KEPT_SHARE = 0.8
_FRESH_SECONDS = 60.0
"""A file used this recently is not marked as used again, which saves a write."""

_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True)
class CacheUse:
    """How full a cache is."""

    folder: Path
    entries: int
    bytes: int
    limit: int


class KernelCache:
    """A bounded store of bytes by key; the least recently used go first.

    Args:
        folder: made when something is first written.
        limit: the most bytes it may take.
    """

    def __init__(self, folder: Path, limit: int = _DEFAULT_MEGABYTES * _MEGABYTE):
        self.folder = folder
        self.limit = limit
        self._written = 0

    @classmethod
    def of_user(cls) -> KernelCache | None:
        """The cache that the environment names; None if it is turned off."""
        if os.environ.get("TCOPT_CACHE", "").lower() in ("0", "off", "false", "no"):
            return None
        given = os.environ.get("TCOPT_CACHE_SIZE", "")
        megabytes = int(given) if given.isdecimal() else _DEFAULT_MEGABYTES
        try:
            return cls(_user_folder(), megabytes * _MEGABYTE)
        except RuntimeError:  # There is no home folder.
            return None

    def get(self, key: str) -> bytes | None:
        """What was stored under a key, if it is there and undamaged."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        body = data[start:]
        if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != _digest(body):
            self.discard(key)
            return None
        with suppress(OSError):
            now = time.time()
            if now - path.stat().st_mtime > _FRESH_SECONDS:
                os.utime(path, (now, now))
        return body

    def has(self, key: str) -> bool:
        """Whether something is stored under a key, damaged or not."""
        return self._path(key).exists()

    def put(self, key: str, body: bytes) -> None:
        """Store bytes under a key, in place of what was there."""
        path = self._path(key)
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
            with os.fdopen(handle, "wb") as stream:
                stream.write(_MAGIC + _digest(body) + body)
            os.replace(temporary, path)
        except OSError:
            if temporary is not None:
                with suppress(OSError):
                    os.unlink(temporary)
            return
        self._written += len(body)

    def discard(self, key: str) -> None:
        """Forget what is stored under a key."""
        with suppress(OSError):
            self._path(key).unlink()

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

    def use(self) -> CacheUse:
        """How many entries there are, and how much room they take."""
        files = self._files()
        return CacheUse(self.folder, len(files), sum(size for _, size, _ in files), self.limit)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / (key[2:] + _SUFFIX)

    def _files(self) -> list[tuple[float, int, Path]]:
        """Time of last use, size and path of each entry; removes what writers left behind."""
        found: list[tuple[float, int, Path]] = []
        for entry in _scan(self.folder):
            with suppress(OSError):
                facts = entry.stat()
                if entry.name.endswith(_SUFFIX):
                    found.append((facts.st_mtime, facts.st_size, Path(entry.path)))
                elif time.time() - facts.st_mtime > _ABANDONED_SECONDS:
                    os.unlink(entry.path)
        return found


def _scan(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The files in the folders of a cache."""
    try:
        parts = [entry.path for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return
    for part in parts:
        with suppress(OSError):
            yield from list(os.scandir(part))


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST).digest()


def _user_folder() -> Path:
    given = os.environ.get("TCOPT_CACHE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tcopt"
