"""Processes that compile candidates, one per core, each with a time limit."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tcopt.support.data.dtypes import named_dtype
from tcopt.support.processes.child_process import ONE_THREAD, ChildError, ChildProcess
from tcopt.support.processes.cores import usable_cores
from tcopt.support.processes.messages import Part
from tcopt.support.registries.plugins import sent_plugins
from tcopt.tuner.arguments import OUTPUT
from tcopt.tuner.candidates import Candidate
from tcopt.tuner.measure.children import ask_child, memory_for_child
from tcopt.tuner.measure.outcomes import (
    COMPILE_ERROR,
    COMPILE_TIMEOUT,
    CRASH,
    RUN_TIMEOUT,
    CandidateFailed,
)
from tcopt.tuner.measure.reference import Reference
from tcopt.tuner.measure.workload import Code, Workload
from tcopt.tuner.tasks import Task

Array = NDArray[Any]
Built = Code | CandidateFailed

_CHILD = "tcopt.tuner.measure.builder_child"
_START_LIMIT = 60.0
"""Additional seconds for a process to start and import the compiler."""
_REFERENCE_LIMIT = 600.0
_IN_SIMULATION = (RUN_TIMEOUT, CRASH)


class Builder(Protocol):
    """Interface of processes that compile candidates."""

    def build(self, candidates: Sequence[Candidate], limit: float) -> list[Built]:
        """Return the code of each candidate, or its failure.

        Args:
            limit: seconds for each candidate.
        """
        ...

    def reference(self, task: Task) -> Reference:
        """Return the reference results of a task.

        Raises:
            CandidateFailed: they cannot be computed here.
        """
        ...

    def stop(self) -> None:
        """End all processes."""
        ...


class LocalBuilders:
    """Builder processes on this machine.

    Args:
        count: number of processes, by default one per core.
    """

    def __init__(self, count: int | None = None):
        number = count or usable_cores()
        memory = memory_for_child()
        self._children = [
            ChildProcess(_CHILD, environment=ONE_THREAD, memory=memory, quiet=True)
            for _ in range(number)
        ]

    def build(self, candidates: Sequence[Candidate], limit: float) -> list[Built]:
        """Compile candidates, distributed dynamically among the processes."""
        return self.build_requests([request_of(candidate) for candidate in candidates], limit)

    def build_requests(self, requests: Sequence[Mapping[str, Any]], limit: float) -> list[Built]:
        """Compile candidates that are given as requests of `request_of`."""
        found: dict[int, Built] = {}

        def compile_one(child: ChildProcess, number: int) -> None:
            found[number] = _build(child, requests[number], limit)

        self._share(range(len(requests)), compile_one)
        return [found[number] for number in range(len(requests))]

    def reference(self, task: Task) -> Reference:
        """Return the reference results of a task."""
        return self.reference_of(reference_request(task))

    def reference_of(self, request: Mapping[str, Any]) -> Reference:
        """Return the reference results for a request of `reference_request`."""
        reply, parts = _ask(self._children[0], request, _REFERENCE_LIMIT, "the reference")
        return reference_from(reply, parts, request["arguments"])

    def simulate(
        self, codes: Sequence[bytes], workload: Workload, target: str, limit: float
    ) -> list[float | CandidateFailed]:
        """Run programs on the simulator of their machine, check their results, and return
        nanoseconds.

        Args:
            codes: compiled code of candidates.
            target: the attribute of the machine, as text.
            limit: seconds for each program.
        """
        facts = {"simulate": True, "target": target, "plugins": sent_plugins(all_=True)}
        checked, found = workload.to_bytes(), dict[int, float | CandidateFailed]()

        def run_one(child: ChildProcess, number: int) -> None:
            try:
                parts = [codes[number], checked]
                reply, _ = _ask(child, facts, limit, "simulating", parts, _IN_SIMULATION)
                found[number] = reply["ns"]
            except CandidateFailed as error:
                found[number] = error

        self._share(range(len(codes)), run_one)
        return [found[number] for number in range(len(codes))]

    def stop(self) -> None:
        """End all processes."""
        for child in self._children:
            child.stop()

    def _share(self, numbers: Sequence[int], work: Callable[[ChildProcess, int], None]) -> None:
        waiting = deque(numbers)

        def feed(child: ChildProcess) -> None:
            while waiting:
                try:
                    number = waiting.popleft()
                except IndexError:
                    return
                work(child, number)

        others = self._children[1 : len(numbers)]
        feeders = [threading.Thread(target=feed, args=(child,), daemon=True) for child in others]
        for feeder in feeders:
            feeder.start()
        feed(self._children[0])
        for feeder in feeders:
            feeder.join()


def request_of(candidate: Candidate) -> dict[str, Any]:
    """Return the request that asks a builder process to compile a candidate."""
    return {
        "build": True,
        "text": candidate.task.text,
        "phases": candidate.task.phases,
        "rule": candidate.rule,
        "choice": None if candidate.choice is None else dict(candidate.choice),
        "sequence": candidate.sequence,
        "plugins": sent_plugins(all_=True),
    }


def reference_request(task: Task) -> dict[str, Any]:
    """Return the request that asks a builder process for the reference of a task."""
    return {
        "reference": True,
        "text": task.text,
        "arguments": [asdict(a) for a in task.arguments],
        "plugins": sent_plugins(all_=True),
    }


def reference_from(
    reply: Mapping[str, Any], parts: Sequence[memoryview], arguments: Sequence[Mapping[str, Any]]
) -> Reference:
    """Decode a reference from a builder process's reply."""
    shapes = [tuple(a["shape"]) for a in arguments if a["role"] == OUTPUT]
    rest = iter(parts)
    expected = tuple(
        tuple(
            np.frombuffer(next(rest), named_dtype(name)).reshape(shape)
            for name, shape in zip(names, shapes, strict=True)
        )
        for names in reply["dtypes"]
    )
    return Reference(expected, reply["precision"], reply["rounds"])


def _build(child: ChildProcess, request: Mapping[str, Any], limit: float) -> Built:
    try:
        _, parts = _ask(child, request, limit, "compiling")
        return Code.from_bytes(bytes(parts[0]))
    except CandidateFailed as error:
        return error
    except ValueError as error:
        return CandidateFailed(COMPILE_ERROR, f"the compiling process sent no code: {error}")


def _ask(
    child: ChildProcess,
    facts: Mapping[str, Any],
    limit: float,
    what: str,
    parts: Sequence[Part] = (),
    statuses: tuple[str, str] = (COMPILE_TIMEOUT, COMPILE_ERROR),
) -> tuple[dict[str, Any], list[memoryview]]:
    """Send a request to a builder process; return its reply and the reply's binary parts.

    Args:
        parts: binary parts of the request.
        statuses: of candidates that take too long, and that end the process.
    """
    spare = _START_LIMIT if child.pid is None else 0.0
    try:
        return ask_child(
            child, facts, parts, limit=limit, spare=spare, subject=what, statuses=statuses
        )
    except ChildError as error:
        raise CandidateFailed(COMPILE_ERROR, error.message) from None
