"""Replacement of several files of one folder as a group."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # On systems without these locks.
    fcntl = None

_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.01


def replace_files(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename files to their final paths, all or none, and flush the folder to disk.

    Args:
        moves: pairs of a file and its final path in the same folder.
    Raises:
        OSError: a file cannot be renamed; the previous files were restored.
    """
    if len(moves) == 1:
        ((source, target),) = moves
        os.replace(source, target)
    elif moves:
        with _alone_in(moves[0][1].parent):
            _replace_all(moves)
    for folder in {target.parent for _, target in moves}:
        _sync_folder(folder)


def _replace_all(moves: Sequence[tuple[Path, Path]]) -> None:
    old: dict[Path, Path | None] = {}
    try:
        try:
            for _, target in moves:
                old[target] = _second_name(target)
            for source, target in moves:
                os.replace(source, target)
        except BaseException:
            _restore(old)
            raise
    finally:
        for second in old.values():
            if second is not None:
                with suppress(OSError):
                    second.unlink()


def _restore(old: dict[Path, Path | None]) -> None:
    for target, second in old.items():
        with suppress(OSError):
            if second is None:
                target.unlink()
            else:
                # Renaming has no effect on two links to the same file.
                if not second.is_symlink() and os.path.samefile(second, target):
                    continue
                os.replace(second, target)


def _second_name(target: Path) -> Path | None:
    """Create a second link to a file, or a copy if the file system has no hard links."""
    second = target.with_name(f".tcopt-{secrets.token_hex(8)}.old")
    try:
        os.link(target, second, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError:
        import shutil

        shutil.copy2(target, second, follow_symlinks=False)
    return second


@contextmanager
def _alone_in(folder: Path) -> Generator[None]:
    """Lock a folder while its files are replaced; concurrent callers wait.

    Raises:
        OSError: another process has held the lock for too long.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise OSError(errno.EBUSY, f"another program holds {folder}") from None
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, if the system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
