"""The user's cache on disk: compiled kernels, and whole programs, in one folder.

Environment:
    TCOPT_CACHE_DIR: the folder, by default `tcopt` in `$XDG_CACHE_HOME` or `~/.cache`.
    TCOPT_CACHE: `0` turns the cache off, `kernels` keeps no whole programs.
    TCOPT_CACHE_SIZE: the most megabytes it may take, by default 2048; kernels have a quarter.
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
    """Compiled kernels by the key of their unit, and small facts about models.

    Args:
        folder: made when something is first written.
        limit: the most bytes they may take.
    """

    def __init__(self, folder: Path, limit: int = _DEFAULT_MEGABYTES * _MEGABYTE // _KERNELS_SHARE):
        super().__init__(folder, ".kernel", limit)

    @classmethod
    def of_user(cls) -> KernelCache | None:
        """The cache that the environment names; None if it is turned off."""
        folder = None if _setting() in _OFF else _user_folder()
        return None if folder is None else cls(folder, _bytes() // _KERNELS_SHARE)


def user_programs() -> DiskStore | None:
    """Where the environment has whole programs kept; None if they are not."""
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
    except RuntimeError:  # There is no home folder.
        return None
