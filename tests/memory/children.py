"""Work in child processes, so that a crash is a finding and does not end the run."""

from __future__ import annotations

import faulthandler
import multiprocessing
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

Work = Callable[[str], str | None]
"""Function that runs the case of a name and returns None if it passes, or what is wrong."""

_CHUNK = 50
"""Names that one process works on, in order."""


_PATIENCE = 20
"""Ratio of wall-clock limit to CPU time limit, for a busy machine."""


def _work_on(
    names: Sequence[str], work: Work, seconds: int, memory: int, results: Connection
) -> None:
    # A signal that ends this process is a finding and needs no report.
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for name in names:
        used = resource.getrusage(resource.RUSAGE_SELF)
        end = int(used.ru_utime + used.ru_stime) + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
        results.send((name, work(name)))


def _outcomes(
    names: Sequence[str], work: Work, seconds: int, memory: int
) -> Iterator[tuple[str, str | None]]:
    left = list(names)
    while left:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(
            target=_work_on, args=(left[:_CHUNK], work, seconds, memory, sender)
        )
        process.start()
        sender.close()
        for name in left[:_CHUNK]:
            outcome: tuple[str, str | None] = (name, "hangs")
            ended = False
            try:
                ended = not receiver.poll(seconds * _PATIENCE)
                if not ended:
                    outcome = receiver.recv()
            except EOFError:
                ended = True
                process.join()
                outcome = (name, _cause(process.exitcode, seconds))
            yield outcome
            left.remove(name)
            if ended:
                break
        process.kill()
        process.join()


def _cause(code: int | None, seconds: int) -> str:
    """Return why a process ended."""
    if code == -signal.SIGXCPU:
        return f"takes more than {seconds} s"
    name = signal.Signals(-code).name if code is not None and code < 0 else f"exit {code}"
    return f"ends its process by {name}"


def run_all(
    names: Sequence[str],
    work: Work,
    *,
    jobs: int = 1,
    seconds: int = 60,
    memory: int = 0,
    progress: Callable[[str, str | None], None] = lambda name, outcome: None,
) -> dict[str, str | None]:
    """Return what is wrong with each name; None for those that pass.

    Args:
        seconds: CPU time limit of each name.
        memory: address space limit of a process in bytes; 0 for none.
        progress: called with each outcome.
    """
    found: dict[str, str | None] = {}

    def share(own: Sequence[str]) -> None:
        for name, outcome in _outcomes(own, work, seconds, memory):
            found[name] = outcome
            progress(name, outcome)

    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        list(pool.map(share, [names[job::jobs] for job in range(max(jobs, 1))]))
    return found
