"""Ownership of the cache: its folder must be private, and its entries are authenticated.

Cache entries become code of this process. Therefore a folder that other users can write to is not
used, and each entry carries a message authentication code (HMAC, RFC 2104) under the user's secret
key. The key is stored outside the folder, so entries that were not written by this user's compiles
are rejected.

Environment:
    XDG_STATE_HOME: base folder of the key, `tcopt/cache.key`; by default `~/.local/state`.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import warnings
from functools import partial
from pathlib import Path

from tcopt.support.files.private_files import make_private, private_path, read_private
from tcopt.support.remarks import notice

KEY_BYTES = 32
CODE_BYTES = 32
_OTHERS_WRITE = 0o022

_keys: dict[Path, bytes] = {}
_told: set[str] = set()


class CacheWarning(UserWarning):
    """The cache cannot be used, so everything is compiled."""


def obstacle(folder: Path) -> str | None:
    """Return why an existing folder cannot be this user's cache; None if it can, or is missing."""
    try:
        facts = os.stat(folder)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return f"it cannot be inspected ({getattr(error, 'strerror', None) or error})"
    if not stat.S_ISDIR(facts.st_mode):
        return "it is not a folder"
    if facts.st_uid != os.geteuid():
        return f"it belongs to user {facts.st_uid}, not to {os.geteuid()}"
    if facts.st_mode & _OTHERS_WRITE:
        return f"others may write to it (mode {stat.S_IMODE(facts.st_mode):o}; chmod 700 it)"
    return None


def user_key() -> bytes | None:
    """Return this user's key, created at the first call; None, with a warning, if that fails."""
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
            tell(f"the cache is not used: the key file {path} is unusable ({reason})")
            return None
    return _keys[path]


def code_of(key: bytes, *parts: bytes) -> bytes:
    """Return the authentication code of some bytes under a key."""
    head = b"".join(len(part).to_bytes(8, "little") for part in parts)
    return hmac.digest(key, b"".join((head, *parts)), "sha256")


def same_code(one: bytes, other: bytes) -> bool:
    """Compare two authentication codes in constant time."""
    return hmac.compare_digest(one, other)


def tell(message: str) -> None:
    """Report that a cache is not used: as a remark, and once per message as a warning."""
    notice("cache", "folder", message)
    if message not in _told:
        _told.add(message)
        warnings.warn(message, CacheWarning, stacklevel=2)
