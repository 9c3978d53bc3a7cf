"""Worker processes that compile units in parallel to this process.

They are new processes that run `compiler.worker`, not forks, as this process may have threads. They
import nothing from the user's program or its folder; see `support.processes.isolated`. Plugins that
their files determine are sent to them. If a worker fails, its units are compiled in this process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

from tcopt.compiler.kernel import Kernel
from tcopt.compiler.units import CompileUnit
from tcopt.support.errors import BackendError
from tcopt.support.pipelines.phases import Phase
from tcopt.support.processes.child_process import ONE_THREAD, ChildDied, ChildError, ChildProcess
from tcopt.support.processes.threads import try_start
from tcopt.support.registries.plugins import sent_plugins


class Workers:
    """A pool of worker processes, ended when the context exits.

    Args:
        count: number of processes to start; fewer if the system refuses.
    """

    def __init__(self, count: int):
        self.processes: list[ChildProcess] = []
        for _ in range(count):
            process = ChildProcess("tcopt.compiler.worker", environment=ONE_THREAD)
            try:
                process.start()
            except BackendError:
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
            process.stop()
        self.processes = []

    def share(
        self,
        units: Sequence[CompileUnit],
        phases: Sequence[Phase],
        compile_here: Callable[[CompileUnit], Kernel],
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
        failed: list[CompileUnit] = []
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


def _next(waiting: deque[CompileUnit]) -> CompileUnit | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _feed(
    process: ChildProcess,
    waiting: deque[CompileUnit],
    phases: Sequence[Phase],
    done: dict[str, Kernel],
    failed: list[CompileUnit],
) -> None:
    """Send waiting units to a worker until none is left; runs in a thread of its own."""
    while (unit := _next(waiting)) is not None:
        try:
            done[unit.key] = compile_in(process, unit, phases)
        except (ChildDied, ValueError):
            failed.append(unit)
            return
        except ChildError:
            failed.append(unit)


def compile_in(process: ChildProcess, unit: CompileUnit, phases: Sequence[Phase]) -> Kernel:
    """Compile a unit in a worker.

    Raises:
        ChildError: the unit cannot be compiled.
        ChildDied: the worker exited.
        ValueError: the worker's answer is malformed.
    """
    request = {
        "phases": [(phase.name, phase.text) for phase in phases],
        "name": unit.name,
        "text": unit.to_send(),
        "plugins": sent_plugins(),
    }
    _, (kernel,) = process.ask(request)
    return Kernel.from_bytes(bytes(kernel))
