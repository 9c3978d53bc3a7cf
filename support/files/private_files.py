"""Secret files of the user, which are only read if no other user can access them.

Environment:
    XDG_STATE_HOME: base folder of the files `tcopt/NAME`; `~/.local/state` by default.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_OTHERS = 0o077
_LARGEST = 1 << 16


def private_path(name: str) -> Path | None:
    """Return the path of a secret file; None if the user has no home folder."""
    base = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return folder / "tcopt" / name


def private_folder(name: str) -> Path | None:
    """Create a folder next to the secret files with mode 0700, and return its path.

    Raises:
        OSError: the folder cannot be created.
        ValueError: other users can access it, or it is not a folder.
    """
    path = private_path(name)
    if path is None:
        return None
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        raise ValueError("it is not a folder")
    if facts.st_uid != os.geteuid() or facts.st_mode & _OTHERS:
        raise ValueError("others may read or write it; chmod 700 it")
    return path


def read_private(path: Path) -> bytes | None:
    """Return the content of a secret file; None if it does not exist.

    Raises:
        OSError: the file cannot be read.
        ValueError: other users can access it, or it is not a small regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST:
            raise ValueError("it does not hold a key; remove it")
        if facts.st_uid != os.geteuid() or facts.st_mode & _OTHERS:
            raise ValueError("others may read or write it; remove it")
        return stream.read(_LARGEST)


def make_private(path: Path, content: Callable[[], bytes]) -> bytes:
    """Write a secret file with mode 0600 and return its content.

    If another process writes the file first, its content is returned.

    Raises:
        OSError: the file cannot be written.
        ValueError: as for `read_private`.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content())
        # Linking is atomic, and fails if the file exists by now.
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    found = read_private(path)
    if found is None:
        raise ValueError("it was removed")
    return found
