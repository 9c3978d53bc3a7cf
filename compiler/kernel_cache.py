"""The user's disk cache: compiled kernels and whole programs in one folder.

Environment:
    TCOPT_CACHE_DIR: the folder, by default `tcopt` in `$XDG_CACHE_HOME` or `~/.cache`.
    TCOPT_CACHE: `0` disables the cache, `kernels` disables it for whole programs.
    TCOPT_CACHE_SIZE: maximum size in MiB, by default 2048; a quarter of it is for kernels.
"""

from __future__ import annotations

import os
from pathlib import Path

from tcopt.compiler.disk_store import DiskStore

_MEGABYTE = 1 << 20
_DEFAULT_MEGABYTES = 2048
_KERNELS_SHARE = 4
_OFF = ("0", "off", "false", "no")
_KERNELS_ONLY = "kernels"


class KernelCache(DiskStore):
    """Cache of compiled kernels by the key of their unit, and of small facts about models.

    Args:
        folder: created at the first write.
        limit: maximum total size in bytes.
    """

    def __init__(self, folder: Path, limit: int = _DEFAULT_MEGABYTES * _MEGABYTE // _KERNELS_SHARE):
        super().__init__(folder, ".kernel", limit)

    @classmethod
    def of_user(cls) -> KernelCache | None:
        """Return the cache that the environment variables select; None if it is disabled."""
        folder = None if _setting() in _OFF else _user_folder()
        return None if folder is None else cls(folder, _bytes() // _KERNELS_SHARE)


def user_programs() -> DiskStore | None:
    """Return the store of whole programs that the environment selects; None if disabled."""
    folder = None if _setting() in (*_OFF, _KERNELS_ONLY) else _user_folder()
    if folder is None:
        return None
    limit = _bytes()
    return DiskStore(folder, ".program", limit - limit // _KERNELS_SHARE)


def _setting() -> str:
    return os.environ.get("TCOPT_CACHE", "").lower()


def _bytes() -> int:
    given = os.environ.get("TCOPT_CACHE_SIZE", "")
    return (int(given) if given.isdecimal() else _DEFAULT_MEGABYTES) * _MEGABYTE


def _user_folder() -> Path | None:
    given = os.environ.get("TCOPT_CACHE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "tcopt"
    except RuntimeError:  # The user has no home folder.
        return None
