"""A size-bounded folder of entries by key, safe for concurrent use by several processes.

Each entry is a file that is written under a temporary name and then renamed, so it is either
complete or absent. The least recently used entries are evicted first. I/O errors never fail a
compile. `cache_owner` authenticates the entries. Links are not followed, and only files of the
store are read or removed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tcopt.compiler.cache_owner import CODE_BYTES, code_of, obstacle, same_code, tell, user_key
from tcopt.support.files.access import open_file

_MAGIC = b"tcopt-entry-2\n"
_FOLDER_NAME = re.compile(r"[0-9a-f]{2}")
_ENTRY_NAME = re.compile(r"[0-9a-f]+")
_PREFIX = "tcopt-"
_PRIVATE = 0o700
_KEPT_SHARE = 0.8
_FRESH_SECONDS = 60.0
"""Entries used within this time are not marked as used again, which saves a write."""

_ABANDONED_SECONDS = 3600.0
_PARTIAL = ".part"
_LARGEST_SHARE = 0.5
"""Largest fraction of the store's limit that one entry may take."""

_FREE_SHARE = 0.1
"""Largest fraction of the free disk space that one entry may take."""


@dataclass(frozen=True)
class StoreUse:
    """Number and size of the entries of a store."""

    entries: int
    bytes: int
    limit: int


class DiskStore:
    """Entries of one kind in a folder that may be shared with stores of other kinds.

    Args:
        folder: created at the first write.
        suffix: suffix of the files of this kind.
        limit: maximum total size in bytes.
    """

    def __init__(self, folder: Path, suffix: str, limit: int):
        self.folder = folder
        self.suffix = suffix
        self.limit = limit
        self._written = 0
        self._reason = obstacle(folder)
        if self._reason is not None:
            tell(f"the cache {folder} is not used: {self._reason}")

    @property
    def obstacle(self) -> str | None:
        """Reason why the folder is not used; None if it is used."""
        return self._reason

    @property
    def is_usable(self) -> bool:
        """Whether the folder is used, and its entries can be authenticated."""
        return self._reason is None and user_key() is not None

    def path(self, key: str) -> Path:
        """Return the path of the entry of a key, whether it exists or not."""
        return self.folder / key[:2] / (key[2:] + self.suffix)

    def get(self, key: str) -> bytes | None:
        """Return the bytes stored by `put` under a key; remove the entry if it is damaged."""
        secret = None if self._reason else user_key()
        data = None if secret is None else _read(self.path(key))
        if secret is None or data is None:
            return None
        start = len(_MAGIC) + CODE_BYTES
        code, body = data[len(_MAGIC) : start], data[start:]
        if not data.startswith(_MAGIC) or not same_code(code, self._code(secret, key, body)):
            self.discard(key)
            return None
        self.touch(key)
        return body

    def has(self, key: str) -> bool:
        """Whether an entry exists for a key; it may be damaged."""
        return self._reason is None and self.path(key).is_file()

    def put(self, key: str, body: bytes) -> None:
        """Store bytes under a key with the user's authentication code, replacing any old entry."""
        secret = None if self._reason else user_key()
        if secret is not None:
            code = self._code(secret, key, body)
            self.write(key, lambda stream: stream.write(_MAGIC + code + body), len(body))

    def _code(self, secret: bytes, key: str, body: bytes) -> bytes:
        return code_of(secret, self.suffix.encode(), key.encode(), body)

    def write(self, key: str, fill: Callable[[BinaryIO], object], size: int) -> None:
        """Store the bytes that `fill` writes under a key, replacing any old entry.

        The entry has no authentication code, so readers must verify it by other means.

        Args:
            fill: writes to a file that is open for reading and writing.
            size: approximate number of bytes.
        """
        path = self.path(key)
        temporary = None
        try:
            if not self._is_prepared(path.parent) or not self._has_room(size):
                return
            handle, temporary = tempfile.mkstemp(_PARTIAL, _PREFIX, path.parent)
            with os.fdopen(handle, "w+b") as stream:
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
            if now - path.lstat().st_mtime > _FRESH_SECONDS:
                os.utime(path, (now, now), follow_symlinks=False)

    def discard(self, key: str) -> None:
        """Remove the entry of a key."""
        with suppress(OSError):
            self.path(key).unlink()

    def trim(self) -> None:
        """Evict entries until the limit is met, if this object has written any.

        Evicts more than necessary, so that the next writes need no eviction.
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
        """Remove all entries; return their number."""
        files = self._files()
        for _, _, path in files:
            with suppress(OSError):
                path.unlink()
        return len(files)

    def use(self) -> StoreUse:
        """Return the number and total size of the entries."""
        files = self._files()
        return StoreUse(len(files), sum(size for _, size, _ in files), self.limit)

    def _is_prepared(self, part: Path) -> bool:
        """Create a folder of the store if necessary; return whether it can be written to."""
        if self._reason is None and not part.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
            # Another user may have created it in the meantime.
            self._reason = obstacle(self.folder)
            if self._reason is None:
                part.mkdir(exist_ok=True, mode=_PRIVATE)
        return self._reason is None and not part.is_symlink()

    def _has_room(self, size: int) -> bool:
        if size > _LARGEST_SHARE * self.limit:
            return False
        return size <= _FREE_SHARE * shutil.disk_usage(self.folder).free

    def _files(self) -> list[tuple[float, int, Path]]:
        """Return (time of last use, size, path) of each entry; remove stale temporary files."""
        found: list[tuple[float, int, Path]] = []
        for entry in () if self._reason else _scan(self.folder):
            with suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                name, suffix = os.path.splitext(entry.name)
                if suffix == self.suffix and _ENTRY_NAME.fullmatch(name):
                    found.append((facts.st_mtime, facts.st_size, Path(entry.path)))
                elif (
                    suffix == _PARTIAL
                    and name.startswith(_PREFIX)
                    and time.time() - facts.st_mtime > _ABANDONED_SECONDS
                ):
                    os.unlink(entry.path)
        return found


def _scan(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files in the folders of a store, without following links."""
    try:
        parts = [
            entry.path
            for entry in os.scandir(folder)
            if _FOLDER_NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    except OSError:
        return
    for part in parts:
        with suppress(OSError):
            yield from (e for e in list(os.scandir(part)) if e.is_file(follow_symlinks=False))


def _read(path: Path) -> bytes | None:
    """Return the content of a regular file; None if the path is anything else or is missing."""
    try:
        with open_file(path, follow=False) as stream:
            return stream.read()
    except OSError:
        return None
