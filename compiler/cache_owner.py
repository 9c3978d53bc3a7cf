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
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

from tcopt.support.remarks import notice

KEY_BYTES = 32
CODE_BYTES = 32
_OTHERS_WRITE = 0o022
_OTHERS = 0o077

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
    """The key of this user, made when it is first asked for; None, told, if there can be none."""
    path = _key_path()
    if path is None:
        return None
    if path not in _keys:
        try:
            _keys[path] = _read_key(path) or _make_key(path)
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


def _key_path() -> Path | None:
    base = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError:  # There is no home folder.
        return None
    return folder / "tcopt" / "cache.key"


def _read_key(path: Path) -> bytes | None:
    """The key in a file; None if there is none yet.

    Raises:
        ValueError: others may know it, or it is none.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != KEY_BYTES:
            raise ValueError("it does not hold a key; remove it")
        if facts.st_uid != os.geteuid() or facts.st_mode & _OTHERS:
            raise ValueError("others may read or write it; remove it")
        return stream.read(KEY_BYTES)


def _make_key(path: Path) -> bytes:
    """A new key, or the one that another process has made meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(secrets.token_bytes(KEY_BYTES))
        # A link is made whole, and not at all where there is a key.
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    key = _read_key(path)
    if key is None:
        raise ValueError("it was removed")
    return key
