"""Atomic writing of files, and reading that is restricted to regular files.

Output goes to a file with an unpredictable name in the same folder, which replaces the old one once
it is completely on disk. Links are replaced, not followed. Only regular files are replaced:
character devices, pipes and descriptors of this process (`/dev/stdout`) are written to directly,
anything else is an error.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

from tcopt.support.errors import InputError, ResourceError

_PARTIAL = ".part"
_MOST_LINKS = 40
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_NOCTTY = getattr(os, "O_NOCTTY", 0)
_BINARY = getattr(os, "O_BINARY", 0)


def as_path(place: object) -> Path:
    """Convert an argument to a path.

    Raises:
        InputError: it is not a path, or not a valid one.
    """
    if isinstance(place, bytes):
        place = os.fsdecode(place)
    if not isinstance(place, str | os.PathLike):
        raise InputError(f"a path is text, not {type(place).__name__}")
    text: str = os.fspath(cast("str | os.PathLike[str]", place))
    try:
        known = os.fsencode(text)
    except UnicodeError:
        known = b""
    if not known or b"\0" in known:
        raise InputError(f"{text!r} is not a path")
    return Path(os.fsdecode(text))


@contextmanager
def open_output(path: str | Path) -> Generator[BinaryIO]:
    """Open a stream whose content replaces `path` when the block ends without an error.

    Raises:
        InputError: the path is not writable; an old file is left unchanged.
    """
    with open_outputs([path]) as (stream,):
        yield stream


@contextmanager
def open_outputs(paths: Sequence[str | Path]) -> Generator[list[BinaryIO]]:
    """Open several files like `open_output`; either all or none are replaced.

    With concurrent writers of the same files, all files end up from the same writer.
    """
    outputs: list[_Output] = []
    places = [as_path(path) for path in paths]
    try:
        with ExitStack() as stack:
            for place in places:
                output = _output(place)
                stack.callback(output.discard)
                outputs.append(output)
            yield [output.stream for output in outputs]
            for output in outputs:
                output.finish()
            staged = [output for output in outputs if isinstance(output, _Staged)]
            replace_files([(output.temporary, output.path) for output in staged])
            for output in staged:
                output.in_place = True
    except OSError as error:
        raise cannot_write(places[0], error) from error


def write_output(path: str | Path, content: bytes | str) -> None:
    """Write a file in the same way as `open_output`.

    Raises:
        InputError: the path is not writable; an old file is left unchanged.
    """
    with open_output(path) as stream:
        # Lone surrogates cannot be encoded.
        text = isinstance(content, str)
        stream.write(content.encode("utf-8", "backslashreplace") if text else content)


def cannot_write(path: str | Path, error: OSError) -> InputError:
    """Return the error for a file that cannot be written."""
    return InputError(f"cannot write {path}: {error.strerror or error}")


def cannot_read(path: str | Path, error: OSError) -> InputError | ResourceError:
    """Return the error for a file that cannot be read."""
    if error.errno == errno.ENOMEM:
        return ResourceError(f"not enough memory to read {path}")
    return InputError(f"cannot read {path}: {error.strerror or error}")


def is_replaced(path: str | Path) -> bool:
    """Whether writing to `path` replaces a file; False if it is a device or a pipe."""
    place = as_path(path)
    return _own_descriptor(place) is None and not _is_stream(place)


def open_file(path: str | Path, *, follow: bool = True) -> IO[bytes]:
    """Open a regular file for unbuffered reading.

    Args:
        follow: whether `path` itself may be a symbolic link.
    Raises:
        OSError: the file is missing, or is a folder, device or pipe; this never blocks.
    """
    flags = os.O_RDONLY | _NONBLOCK | _NOCTTY | _BINARY | (0 if follow else _NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a file", str(path))
        return open(descriptor, "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def open_source(path: str | Path) -> IO[bytes]:
    """Open a file or a pipe for reading; a pipe without a writer is empty.

    Raises:
        OSError: the file is missing, or is a folder or a device, which may be endless.
        InputError: it is not a path.
    """
    descriptor = os.open(as_path(path), os.O_RDONLY | _NONBLOCK | _NOCTTY | _BINARY)
    try:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or os.isatty(descriptor)):
            raise OSError(errno.EINVAL, "it is not a file")
        os.set_blocking(descriptor, True)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


class _Output(Protocol):
    """Destination of an output stream."""

    @property
    def stream(self) -> BinaryIO: ...
    def finish(self) -> None:
        """Complete the output."""
        ...

    def discard(self) -> None:
        """Close, and remove temporary files."""
        ...


def _output(path: Path) -> _Output:
    descriptor = _own_descriptor(path)
    if descriptor is not None:
        return _Direct(os.dup(descriptor))
    if _is_stream(path):
        return _Direct(_open_stream(path))
    return _Staged(path)


class _Staged:
    """A temporary file next to its destination."""

    def __init__(self, path: Path):
        self.path = path
        self.in_place = False
        self._mode = _mode_of_old(path)
        # An unpredictable name and exclusive creation prevent following links of other users.
        self.temporary = path.with_name(f".tcopt-{secrets.token_hex(8)}{_PARTIAL}")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY
        mode = 0o666 if self._mode is None else self._mode
        self.stream: BinaryIO = os.fdopen(os.open(self.temporary, flags, mode), "wb")

    def finish(self) -> None:
        self.stream.flush()
        descriptor = self.stream.fileno()
        if self._mode is not None:
            os.fchmod(descriptor, self._mode)
        os.fsync(descriptor)
        self.stream.close()

    def discard(self) -> None:
        with suppress(OSError):
            self.stream.close()
        if not self.in_place:
            with suppress(OSError):
                self.temporary.unlink()


class _Direct:
    """A device, a pipe or an open descriptor, which receives the output at the end."""

    def __init__(self, descriptor: int):
        import tempfile

        self._descriptor: int | None = descriptor
        # Writers of archives need to seek.
        self.stream: Any = tempfile.TemporaryFile()  # noqa: SIM115

    def finish(self) -> None:
        import shutil

        assert self._descriptor is not None
        self.stream.seek(0)
        descriptor, self._descriptor = self._descriptor, None
        with open(descriptor, "wb") as target:
            shutil.copyfileobj(self.stream, target)

    def discard(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        with suppress(OSError):
            self.stream.close()


def _mode_of_old(path: Path) -> int | None:
    """Return the permissions of the file to be replaced; None if it is missing or a link.

    Raises:
        OSError: the existing file must not be replaced.
    """
    try:
        facts = os.lstat(path)
        is_link = stat.S_ISLNK(facts.st_mode)
        mode = os.stat(path).st_mode if is_link else facts.st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a file")
    if is_link:
        return None
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "it is write-protected")
    return stat.S_IMODE(mode) & 0o777


def _is_stream(path: Path) -> bool:
    """Whether a path is, possibly through links, a character device or a pipe."""
    with suppress(OSError, ValueError):
        mode = os.stat(path).st_mode
        return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
    return False


def _open_stream(path: Path) -> int:
    """Open a device or a pipe for writing; fail at once if the pipe has no reader."""
    try:
        descriptor = os.open(path, os.O_WRONLY | _NONBLOCK | _NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "this pipe has no reader") from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "the pipe or device was replaced")
    os.set_blocking(descriptor, True)
    return descriptor


def _own_descriptor(path: Path) -> int | None:
    """Return the descriptor of this process that a path such as `/dev/stdout` refers to."""
    own = {f"/proc/{os.getpid()}/fd", "/dev/fd"}
    place = os.fspath(path)
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(os.path.abspath(place))
        folder = os.path.realpath(folder)
        if folder in own and name.isascii() and name.isdecimal():
            return int(name)
        try:
            place = os.path.join(folder, os.readlink(os.path.join(folder, name)))
        except (OSError, ValueError):
            return None
    return None


try:
    import fcntl
except ImportError:  # On systems without these locks.
    fcntl = None

_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.01


def replace_files(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename files to their final paths, all or none, and flush the folder to disk.

    Args:
        moves: pairs of a file and its final path in the same folder. The folder of the first one
            is locked meanwhile.
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
