"""Run the tools of lit's RUN lines in forks of lit's own process.

`TCOPT_LIT_PROCESSES=1` starts real processes instead, as a shell would.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import lit.TestRunner

from running.forks import become, body_of, preload


def install() -> None:
    """Import the tools and replace lit's way of starting processes."""
    preload()
    lit.TestRunner.subprocess = _Subprocess()


class _Subprocess:
    """Python's `subprocess` module with a `Popen` that forks for the tools."""

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(self, args: Sequence[str], **options: Any) -> Any:
        body = body_of(args)
        if body is None:
            return subprocess.Popen(args, **options)
        streams = {name: options[name] for name in ("stdin", "stdout", "stderr")}
        return ForkedTool(body, args, cwd=options["cwd"], env=options["env"], **streams)


class ForkedTool:
    """The part of `subprocess.Popen` that lit uses, for a function run in a fork of this process.

    Args:
        body: function that runs in the child and returns its exit status, or raises SystemExit.
        args: the command, which becomes `sys.argv`.
        cwd: working folder of the child.
        env: all environment variables of the child.
        stdin: a file, or `PIPE` for an empty one.
        stdout: a file, or `PIPE`.
        stderr: a file, `PIPE`, or `STDOUT`.
    """

    def __init__(
        self,
        body: Callable[[], object],
        args: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: Any,
        stdout: Any,
        stderr: Any,
    ):
        self.stdin = open(os.devnull, "rb") if stdin == subprocess.PIPE else None  # noqa: SIM115
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        self.returncode: int | None = None
        outputs, errors = stdout, stderr
        if stdout == subprocess.PIPE:
            read, outputs = os.pipe()
            self.stdout = _text(read)
        if stderr == subprocess.STDOUT:
            errors = outputs
        elif stderr == subprocess.PIPE and self.stdout is None:
            read, errors = os.pipe()
            self.stderr = _text(read)
        elif stderr == subprocess.PIPE:
            # A file rather than a second pipe, so that reading one after the other cannot block.
            with tempfile.TemporaryFile() as file:
                errors = os.dup(file.fileno())
            self.stderr = _text(os.dup(errors))
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            inputs = stdin if self.stdin is None else self.stdin
            become(body, args, cwd, env, [_descriptor(f) for f in (inputs, outputs, errors)])
        for own, given in ((outputs, stdout), (errors, stderr)):
            if given == subprocess.PIPE:
                os.close(own)

    def wait(self) -> int:
        """Wait for the child and return its exit status, negative for a signal."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit status, or None while the child runs."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        """Kill the child."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        """Wait for the child and return its stdout and stderr."""
        output = self.stdout.read() if self.stdout is not None else ""
        self.wait()
        if self.stderr is None:
            return output, ""
        if self.stderr.seekable():
            self.stderr.seek(0)
        return output, self.stderr.read()


def _text(descriptor: int) -> IO[str]:
    return open(descriptor, encoding="utf-8", errors="replace")


def _descriptor(file: Any) -> int:
    return file if isinstance(file, int) else file.fileno()
