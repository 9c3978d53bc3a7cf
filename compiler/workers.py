"""Worker processes that compile units in parallel to this process.

They are new processes that run `compiler.worker`, not forks, as this process may have threads. They
import nothing from the user's program or its folder; see `support.isolated`. Plugins that consist
of their sources only are sent to them. If a worker fails, its units are compiled in this process.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

from tcopt.compiler.kernel import Kernel
from tcopt.compiler.units import Unit
from tcopt.compiler.worker import receive, send
from tcopt.support.pipelines.phases import Phase
from tcopt.support.processes.isolated import ROOT, child_environment, end_process, isolated_command
from tcopt.support.processes.threads import try_start
from tcopt.support.registries.plugins import loaded_sources

_CODE = "from tcopt.compiler.worker import main; main()"
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Workers:
    """A pool of worker processes, ended when the context exits.

    Args:
        count: number of processes to start; fewer if the system refuses.
    """

    def __init__(self, count: int):
        self.processes: list[subprocess.Popen[bytes]] = []
        for _ in range(count):
            process = _start()
            if process is None:
                break
            self.processes.append(process)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the processes immediately."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            end_process(process)
        self.processes = []

    def share(
        self,
        units: Sequence[Unit],
        phases: Sequence[Phase],
        compile_here: Callable[[Unit], Kernel],
        done: dict[str, Kernel] | None = None,
    ) -> dict[str, Kernel]:
        """Compile units in this process and the workers; each takes the next unit when idle.

        Args:
            units: sorted by decreasing compile time.
            compile_here: compiles a unit in this process, and raises compile errors.
            done: mapping to store kernels in as they are finished.
        Returns:
            Kernels by key.
        """
        waiting = deque(units)
        done = {} if done is None else done
        failed: list[Unit] = []
        feeders = [
            threading.Thread(target=_feed, args=(process, waiting, phases, done, failed))
            for process in self.processes
        ]
        for feeder in feeders:
            feeder.daemon = True
        # Units that no worker takes are compiled here.
        feeders = [feeder for feeder in feeders if try_start(feeder)]
        while (unit := _next(waiting)) is not None:
            done[unit.key] = compile_here(unit)
        for feeder in feeders:
            feeder.join()
        # Errors are raised again here, with locations in the model, which the text does not have.
        for unit in failed:
            done[unit.key] = compile_here(unit)
        return done


def _start() -> subprocess.Popen[bytes] | None:
    """Start a worker; return None if the system cannot start one."""
    command = isolated_command(_CODE)
    if command is None:
        return None
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment(**_ONE_THREAD),
            cwd=ROOT,
        )
    except OSError:
        return None


def _next(waiting: deque[Unit]) -> Unit | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _feed(
    process: subprocess.Popen[bytes],
    waiting: deque[Unit],
    phases: Sequence[Phase],
    done: dict[str, Kernel],
    failed: list[Unit],
) -> None:
    """Send waiting units to a worker until none is left; runs in a thread of its own."""
    while (unit := _next(waiting)) is not None:
        try:
            reply = _ask(process, unit, phases)
            done[unit.key] = Kernel.from_bytes(reply)
        except (OSError, EOFError, ValueError):
            failed.append(unit)
            return
        except _Refused:
            failed.append(unit)


class _Refused(Exception):
    """A worker reported that a unit cannot be compiled."""


def _ask(process: subprocess.Popen[bytes], unit: Unit, phases: Sequence[Phase]) -> bytes:
    """Compile a unit in a worker; return the serialised kernel."""
    assert process.stdin is not None and process.stdout is not None
    request = {
        "phases": [(phase.name, phase.text) for phase in phases],
        "name": unit.name,
        "text": unit.to_send(),
        "plugins": plugin_sources(),
    }
    send(process.stdin, json.dumps(request).encode())
    reply = receive(process.stdout)
    if reply[:1] != b"+":
        raise _Refused
    return reply[1:]


def plugin_sources(*, all_: bool = False) -> list[object]:
    """Return the plugins that a worker must load, as `PluginSource.facts`.

    Args:
        all_: whether to include plugins that depend on more than their sources, for callers that do
            not cache the worker's results.
    """
    return [source.facts() for source in loaded_sources(all_=all_)]
