"""A bounded folder of entries by key, which any number of processes may use at once.

Each entry is a file, whole or absent: it is written beside its place and renamed. The least
recently used go first. Nothing that goes wrong with the folder fails a compile. Who may have
written what is there is `cache_owner`'s to say; no link is followed, and no file but the store's
own is read or removed.
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
from tcopt.support.files import open_file

_MAGIC = b"tcopt-entry-2\n"
_FOLDER_NAME = re.compile(r"[0-9a-f]{2}")
_ENTRY_NAME = re.compile(r"[0-9a-f]+")
_PREFIX = "tcopt-"
_PRIVATE = 0o700
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
        self._reason = obstacle(folder)
        if self._reason is not None:
            tell(f"the cache {folder} is not used: {self._reason}")

    @property
    def obstacle(self) -> str | None:
        """Why the folder is not used; None if it is."""
        return self._reason

    def path(self, key: str) -> Path:
        """Where the entry of a key is, if there is one."""
        return self.folder / key[:2] / (key[2:] + self.suffix)

    def get(self, key: str) -> bytes | None:
        """The bytes that `put` stored under a key; a damaged entry is removed."""
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
        """Whether something is stored under a key, damaged or not."""
        return self._reason is None and self.path(key).is_file()

    def put(self, key: str, body: bytes) -> None:
        """Store bytes with the user's code under a key, in place of what was there."""
        secret = None if self._reason else user_key()
        if secret is not None:
            code = self._code(secret, key, body)
            self.write(key, lambda stream: stream.write(_MAGIC + code + body), len(body))

    def _code(self, secret: bytes, key: str, body: bytes) -> bytes:
        return code_of(secret, self.suffix.encode(), key.encode(), body)

    def write(self, key: str, fill: Callable[[BinaryIO], object], size: int) -> None:
        """Store what `fill` writes under a key, in place of what was there.

        It is stored without a code: whoever reads it has to know what it should be.

        Args:
            fill: writes to a file that can be read, too.
            size: about how many bytes that will be.
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

    def _is_prepared(self, part: Path) -> bool:
        """Whether a folder of the store is there and can be written to, after making it."""
        if self._reason is None and not part.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
            # Another user may have made it meanwhile.
            self._reason = obstacle(self.folder)
            if self._reason is None:
                part.mkdir(exist_ok=True, mode=_PRIVATE)
        return self._reason is None and not part.is_symlink()

    def _has_room(self, size: int) -> bool:
        if size > _LARGEST_SHARE * self.limit:
            return False
        return size <= _FREE_SHARE * shutil.disk_usage(self.folder).free

    def _files(self) -> list[tuple[float, int, Path]]:
        """Time of last use, size and path of each entry; removes what writers left behind."""
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
    """The files in the folders of a store; neither is a link."""
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
    """The content of a file that is no link, pipe or device; None if there is no such."""
    try:
        with open_file(path, follow=False) as stream:
            return stream.read()
    except OSError:
        return None
