"""Run Python programs and the project's tools as forks of a process that has imported them.

Starting Python and importing the compiler takes longer than most tests. A fork takes a few
milliseconds and is a normal process: it has its own registries, environment, working folder,
streams and exit status. lit forks itself (`lit_tests/lit.cfg.py`). pytest, which has threads, uses
a `ForkServer`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

TOOLS = {
    "filecheck": "filecheck.main",
    "tcopt": "tcopt.tools.tcopt",
    "tcopt-bench": "tcopt.tools.tcopt_bench",
    "tcopt-cache": "tcopt.tools.tcopt_cache",
    "tcopt-check": "tcopt.tools.tcopt_check",
    "tcopt-compile": "tcopt.tools.tcopt_compile",
    "tcopt-machine": "tcopt.tools.tcopt_machine",
    "tcopt-quantize": "tcopt.tools.tcopt_quantize",
    "tcopt-run": "tcopt.tools.tcopt_run",
    "tcopt-tune": "tcopt.tools.tcopt_tune",
}
"""Modules of the console scripts that forks can run."""

_PRELOADED = ("onnx", "onnx.parser", "tcopt.compiler.driver", "tcopt.frontends.onnx.importer")


def preload() -> None:
    """Import what the tools need before forking."""
    for module in (*TOOLS.values(), *_PRELOADED):
        importlib.import_module(module)
    from tcopt.support.registries.registry import all_passes

    for load in all_passes().values():
        load()
    gc.freeze()


def body_of(command: Sequence[str]) -> Callable[[], object] | None:
    """Return the function that a command runs; None for a command that needs a real process."""
    name, *arguments = command
    name = os.path.basename(name)
    if (module := TOOLS.get(name)) is not None:
        main = importlib.import_module(module).main
        # `filecheck` expects the name of the program before its arguments.
        return (
            (lambda: main([name, *arguments])) if name == "filecheck" else lambda: main(arguments)
        )
    if not name.startswith("python") or not arguments:
        return None
    if arguments[0] == "-m":
        return lambda: runpy.run_module(arguments[1], run_name="__main__", alter_sys=True) and None
    if arguments[0].endswith(".py"):
        return lambda: runpy.run_path(arguments[0], run_name="__main__") and None
    return None


def become(
    body: Callable[[], object],
    command: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    streams: Sequence[int],
) -> None:
    """Run `body` in this process, a new fork, as `command` would, and exit.

    Args:
        streams: file descriptors for standard input, output and errors.
    """
    status = 1
    try:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        # Duplicate first, since a descriptor may be one that is about to be replaced.
        for target, source in enumerate([os.dup(stream) for stream in streams]):
            os.dup2(source, target)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
        sys.argv = _argv(command)
        if sys.argv[0].endswith(".py"):
            sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
        status = _status(body)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _argv(command: Sequence[str]) -> list[str]:
    """Return the value of `sys.argv` in a program."""
    if os.path.basename(command[0]).startswith("python"):
        return list(command[2 if command[1] == "-m" else 1 :])
    return list(command)


def _status(body: Callable[[], object]) -> int:
    """Return the exit status of a console script's function."""
    try:
        result = body()
    except SystemExit as stop:
        result = stop.code
        if isinstance(result, str):
            print(result, file=sys.stderr)
    return result if isinstance(result, int) else int(result is not None)


class ForkServer:
    """A process that runs commands in forks of itself, one at a time; a context manager."""

    def __enter__(self) -> ForkServer:
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(timeout=60)

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        input: str | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as `subprocess.run(..., capture_output=True, text=True)` would.

        A command without a function runs as a real process.
        """
        env = dict(os.environ if environment is None else environment)
        if body_of(command) is None:
            return subprocess.run(
                command,
                cwd=cwd,
                env=env,
                input=input,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        with tempfile.TemporaryDirectory() as folder:
            given, output, errors = (Path(folder, name) for name in ("in", "out", "err"))
            given.write_text(input or "", encoding="utf-8")
            request = {
                "command": list(command),
                "cwd": str(cwd),
                "env": env,
                "files": [str(given), str(output), str(errors)],
                "timeout": timeout,
            }
            assert self._server.stdin is not None and self._server.stdout is not None
            print(json.dumps(request), file=self._server.stdin, flush=True)
            status = json.loads(self._server.stdout.readline())
            texts = [
                file.read_text(encoding="utf-8", errors="replace") for file in (output, errors)
            ]
        if status is None:
            raise subprocess.TimeoutExpired(command, timeout, *texts)
        return subprocess.CompletedProcess(command, status, *texts)


def _serve() -> None:
    """Answer each request, a line of JSON, with the exit status of its command."""
    preload()
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        body = body_of(request["command"])
        assert body is not None
        pid = os.fork()
        if pid == 0:
            files = zip(request["files"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)
            streams = [os.open(file, mode | os.O_CREAT, 0o600) for file, mode in files]
            become(body, request["command"], request["cwd"], request["env"], streams)
        print(json.dumps(_wait(pid, request["timeout"])), file=replies, flush=True)


def _wait(pid: int, timeout: float) -> int | None:
    """Return the exit status of a child; None if it was killed after `timeout` seconds."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return None


if __name__ == "__main__":
    _serve()
