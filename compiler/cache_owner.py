"""Whose a cache is: its folder is this user's alone, and its entries have this user's mark.

What is found in a cache becomes code of this process. So a folder that others may write to is not
used, and an entry counts only with a code that needs the user's key (HMAC, RFC 2104), which is not
in the folder: what was copied there, from wherever, was not made by this user's compiles.

Environment:
    XDG_STATE_HOME: where the key is, in `tcopt/cache.key`; by default `~/.local/state`.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import warnings
from functools import partial
from pathlib import Path

from tcopt.support.private_files import make_private, private_path, read_private
from tcopt.support.remarks import notice

KEY_BYTES = 32
CODE_BYTES = 32
_OTHERS_WRITE = 0o022

_keys: dict[Path, bytes] = {}
_told: set[str] = set()


class CacheWarning(UserWarning):
    """A cache cannot be used; everything is compiled."""


def obstacle(folder: Path) -> str | None:
    """Why a folder, if it is there, is not a cache of this user; None if it is one."""
    try:
        facts = os.stat(folder)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return f"it cannot be looked at ({getattr(error, 'strerror', None) or error})"
    if not stat.S_ISDIR(facts.st_mode):
        return "it is not a folder"
    if facts.st_uid != os.geteuid():
        return f"it belongs to user {facts.st_uid}, not to {os.geteuid()}"
    if facts.st_mode & _OTHERS_WRITE:
        return f"others may write to it (mode {stat.S_IMODE(facts.st_mode):o}; chmod 700 it)"
    return None


def user_key() -> bytes | None:
    """Return the key of this user, made at the first call; None after a warning if that fails."""
    path = private_path("cache.key")
    if path is None:
        return None
    if path not in _keys:
        try:
            key = read_private(path) or make_private(path, partial(secrets.token_bytes, KEY_BYTES))
            if len(key) != KEY_BYTES:
                raise ValueError("it does not hold a key; remove it")
            _keys[path] = key
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            tell(f"the cache is not used: its key {path} cannot be used ({reason})")
            return None
    return _keys[path]


def code_of(key: bytes, *parts: bytes) -> bytes:
    """The code that only who knows a key can give for some bytes."""
    head = b"".join(len(part).to_bytes(8, "little") for part in parts)
    return hmac.digest(key, b"".join((head, *parts)), "sha256")


def same_code(one: bytes, other: bytes) -> bool:
    """Whether two codes are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)


def tell(message: str) -> None:
    """Say once that a cache is not used, as a warning, and each time as a remark."""
    notice("cache", "folder", message)
    if message not in _told:
        _told.add(message)
        warnings.warn(message, CacheWarning, stacklevel=2)
