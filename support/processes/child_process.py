"""A child process that answers one request at a time, in its own process group.

Nothing that it does can stop its parent: each request may have a time limit, after which the child
and all its descendants are killed. The next request starts another child.
"""

from __future__ import annotations

import math
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from tcopt.support.errors import BackendError, TcoptError
from tcopt.support.processes.isolated import ROOT, child_environment, isolated_command
from tcopt.support.processes.messages import Part, pack, send, unpack

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment of children that run one per core."""

_CODE = "from tcopt.support.processes.serving import run; run({!r}, {}, {!r})"
_HEAD = 8
_PATIENCE_S = 5.0
_LONGEST_WAIT = 50


class ChildDied(TcoptError):
    """A child ended without an answer.

    Attributes:
        status: exit status, such as `SIGSEGV` or `exit status 1`.
        killed: whether it was killed by another process, such as the system when out of memory.
    """

    code = "child-died"

    def __init__(self, status: str):
        super().__init__(f"the process ended ({status})")
        self.status = status
        self.killed = status == signal.Signals.SIGKILL.name


class ChildLate(TcoptError):
    """A child did not answer within its time limit and was killed."""

    code = "child-late"


class ChildError(TcoptError):
    """A child reported an error; it goes on.

    Attributes:
        reported: code of the error in the child, such as `unsupported`.
    """

    code = "child-error"

    def __init__(self, reported: str, message: str):
        super().__init__(message)
        self.reported = reported


class ChildProcess:
    """A child that runs a module, started by the first request.

    Args:
        module: full name of a module with the function `start`, see `serving`.
        arguments: further arguments of `start`: strings and numbers.
        environment: environment variables to set.
        memory: limit of its memory in bytes; 0 for none.
        quiet: whether to discard its error output, as of third-party code and device compilers.
        files: file descriptors that it inherits.

    Attributes:
        started: number of child processes started so far.
    """

    def __init__(
        self,
        module: str,
        *arguments: str | int,
        environment: Mapping[str, str] | None = None,
        memory: int = 0,
        quiet: bool = False,
        files: Sequence[int] = (),
    ):
        self._errors = subprocess.DEVNULL if quiet else None
        self._code, self._files = _CODE.format(module, memory, arguments), tuple(files)
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0

    @property
    def pid(self) -> int | None:
        """Process id of the child, if it is running."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the child unless it is running.

        Raises:
            BackendError: the system cannot start a process.
        """
        if self._process is not None:
            return
        command = isolated_command(self._code)
        if command is None:
            raise BackendError("cannot find the Python interpreter to start a process")
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

    def ask(
        self,
        facts: Mapping[str, Any],
        parts: Sequence[Part] = (),
        *,
        limit: float = math.inf,
        busy: bool = False,
    ) -> tuple[dict[str, Any], list[memoryview]]:
        """Send a message of JSON facts and binary parts; return the facts and parts of the answer.

        Args:
            limit: time limit in seconds.
            busy: count processor time of the child instead of elapsed time, so that it is not
                killed because the machine is busy. Elapsed time is limited to 50 times as much.
        Raises:
            ChildError: the child reports an error.
            ChildLate: no answer came in time; the child is killed.
            ChildDied: the child exited, or its answer is malformed.
        """
        self.start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        started, used = time.monotonic(), processor_time(process.pid) if busy else None
        end = started + limit
        try:
            send(process.stdin, pack(facts, parts))
            while used is not None and not _is_readable(process.stdout, end):
                taken = (processor_time(process.pid) or math.inf) - used
                if taken >= limit or time.monotonic() - started >= _LONGEST_WAIT * limit:
                    break
                end = time.monotonic() + max(limit - taken, 0.1)
            reply, found = unpack(_read_message(process.stdout, max(end, time.monotonic() + 1.0)))
        except TimeoutError:
            self.stop()
            raise ChildLate(f"no answer within {limit:.3g} s") from None
        except (EOFError, OSError):
            status = _exit_status(process)
            self.stop()
            raise ChildDied(status) from None
        except (ValueError, LookupError):  # Also if another thread has stopped the child.
            self.stop()
            raise ChildDied("malformed answer") from None
        if "error" in reply:
            raise ChildError(reply["error"], reply["message"])
        return reply, found

    def stop(self) -> None:
        """Kill the child and all its descendants."""
        process, self._process = self._process, None
        if process is None:
            return
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                # Unwritten data is discarded.
                with suppress(OSError):
                    stream.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.stop()


def processor_time(pid: int) -> float | None:
    """Return the processor time of a process in seconds; None if the system does not report it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _is_readable(stream: IO[bytes], end: float) -> bool:
    """Wait until a stream has data or ends; return False if the time is over.

    Args:
        end: deadline on the clock `time.monotonic`.
    """
    # Unlike epoll, poll returns if another thread ends the child and closes the stream.
    with selectors.PollSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return bool(selector.select(None if end == math.inf else max(end - time.monotonic(), 0.0)))


def _read_message(stream: IO[bytes], end: float) -> bytes:
    """Read a message written by `messages.send`.

    Raises:
        TimeoutError: the message was incomplete at the deadline.
        EOFError: the other side has closed the stream.
    """
    return _read(stream, int.from_bytes(_read(stream, _HEAD, end), "little"), end)


def _read(stream: IO[bytes], count: int, end: float) -> bytes:
    parts: list[bytes] = []
    while count:
        if not _is_readable(stream, end):
            raise TimeoutError
        part = os.read(stream.fileno(), count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _exit_status(process: subprocess.Popen[bytes]) -> str:
    """Return how a process ended, such as `SIGSEGV` or `exit status 1`."""
    try:
        code = process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return "no answer"
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"
