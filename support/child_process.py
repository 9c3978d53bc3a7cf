"""A child that answers one message after the other, in a process group of its own.

Whatever it does, its parent goes on: a request has a limit of time, after which the child and all
that it has started are ended; the next request starts another one.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from tcopt.support.errors import BackendError, TcoptError
from tcopt.support.isolated import ROOT, child_environment, end_process, isolated_command
from tcopt.support.messages import send

_HEAD = 8
_PATIENCE_S = 5.0
_LONGEST_WAIT = 50


class ChildDied(TcoptError):
    """A child ended without an answer.

    Attributes:
        status: how, such as `SIGSEGV` or `exit status 1`.
        killed: whether somebody ended it from outside, as a system short of memory does.
    """

    code = "child-died"

    def __init__(self, status: str):
        super().__init__(f"the process ended ({status})")
        self.status = status
        self.killed = status == signal.Signals.SIGKILL.name


class ChildLate(TcoptError):
    """A child gave no answer within its limit, and was ended."""

    code = "child-late"


class ChildProcess:
    """A child that runs code of the package, started at the first request.

    Args:
        code: what it runs; it reads messages from its standard input and answers each on its
            standard output, see `support.messages`.
        environment: variables to set in it.
        quiet: what it prints is nobody's, as that of foreign code and of devices' compilers.
        files: descriptors of open files that it has, too.

    Attributes:
        started: how many there have been.
    """

    def __init__(
        self,
        code: str,
        environment: Mapping[str, str] | None = None,
        *,
        quiet: bool = False,
        files: Sequence[int] = (),
    ):
        self._errors = subprocess.DEVNULL if quiet else None
        self._code, self._files = code, tuple(files)
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0

    @property
    def pid(self) -> int | None:
        """The process, if there is one."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it, unless it runs.

        Raises:
            BackendError: the system cannot start a process.
        """
        if self._process is not None:
            return
        command = isolated_command(self._code)
        if command is None:
            raise BackendError("there is no Python to start a process with")
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=child_environment(**self._environment),
                cwd=ROOT,
                process_group=0,
                pass_fds=self._files,
            )
        except OSError as error:
            raise BackendError(f"cannot start a process: {error}") from error
        self.started += 1

    def ask(self, message: bytes, limit: float, *, busy: bool = False) -> bytes:
        """The answer to a message.

        Args:
            limit: seconds that it may take.
            busy: count processor time of the child instead of elapsed time, so that a busy
                machine is not a reason to end it. Elapsed time is limited to 50 times as much.
        Raises:
            ChildLate: there was none in time; the child is ended.
            ChildDied: it ended by itself.
        """
        self.start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        started, used = time.monotonic(), processor_time(process.pid)
        end = started + limit
        try:
            send(process.stdin, message)
            while busy and used is not None and not _is_readable(process.stdout, end):
                taken = (processor_time(process.pid) or math.inf) - used
                if taken >= limit or time.monotonic() - started >= _LONGEST_WAIT * limit:
                    break
                end = time.monotonic() + max(limit - taken, 0.1)
            return read_message(process.stdout, max(end, time.monotonic() + 1.0))
        except TimeoutError:
            self.stop()
            raise ChildLate(f"no answer within {limit:.3g} s") from None
        except (EOFError, OSError):
            status = exit_status(process)
            self.stop()
            raise ChildDied(status) from None

    def stop(self) -> None:
        """End the child and all that it has started."""
        process, self._process = self._process, None
        if process is not None:
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            end_process(process)

    def __del__(self) -> None:
        with suppress(Exception):
            self.stop()


def processor_time(pid: int) -> float | None:
    """Seconds that a process has run on processors; None if the system does not say it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _is_readable(stream: IO[bytes], end: float) -> bool:
    """Wait for an answer, or the end of the stream, until a time."""
    return bool(select.select([stream], [], [], max(end - time.monotonic(), 0.0))[0])


def read_message(stream: IO[bytes], end: float) -> bytes:
    """A message that `support.messages.send` wrote.

    Args:
        end: until when, by `time.monotonic`.
    Raises:
        TimeoutError: it was not whole by then.
        EOFError: the other side has closed the stream.
    """
    return _read(stream, int.from_bytes(_read(stream, _HEAD, end), "little"), end)


def _read(stream: IO[bytes], count: int, end: float) -> bytes:
    parts: list[bytes] = []
    while count:
        ready, _, _ = select.select([stream], [], [], max(end - time.monotonic(), 0.0))
        if not ready:
            raise TimeoutError
        part = os.read(stream.fileno(), count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def exit_status(process: subprocess.Popen[bytes]) -> str:
    """How a process ended, such as `SIGSEGV` or `exit status 1`."""
    try:
        code = process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return "no answer"
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"
