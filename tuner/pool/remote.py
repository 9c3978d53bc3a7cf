"""Functions that run on the workers of a pool, called by name with bytes as arguments.

A worker keeps one process that runs candidates, or one that compiles, across tasks. Neither
candidates nor schedules run in the worker process itself.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from tcopt.compiler.fingerprint import fingerprint
from tcopt.support.processes.cores import default_threads
from tcopt.support.processes.messages import pack, unpack
from tcopt.tuner.measure.builders import LocalBuilders
from tcopt.tuner.measure.least_times import Amounts, measured_again, on_this_machine
from tcopt.tuner.measure.outcomes import LOST, CandidateFailed, Outcome
from tcopt.tuner.measure.runner import RunLimits, Runner
from tcopt.tuner.measure.turns import Turns, TurnSettings
from tcopt.tuner.measure.workload import Code, Workload
from tcopt.tuner.records.machine import machine_facts


def facts() -> dict[str, Any]:
    """Return the facts of this worker: compiler version, machine, threads and process id."""
    return {
        "version": fingerprint(),
        "machine": machine_facts(),
        "threads": default_threads(),
        "pid": os.getpid(),
    }


@cache
def _runner(kind: str, threads: int, limits: RunLimits, memory: int | None) -> Runner:
    return Runner(kind, threads, limits, memory)


@cache
def _builders() -> LocalBuilders:
    return LocalBuilders(1)


def build(message: bytes, limit: float) -> bytes:
    """Compile one candidate; return code or a failure."""
    request, _ = unpack(message)
    refusal = _refusal(request.pop("version"))
    if refusal is not None:
        return refusal
    (made,) = _builders().build_requests([request], limit)
    if isinstance(made, CandidateFailed):
        return pack({"status": made.status, "message": made.message})
    return pack({}, [made.to_bytes()])


def reference(message: bytes) -> bytes:
    """Return the reference results of a task."""
    request, _ = unpack(message)
    refusal = _refusal(request.pop("version"))
    if refusal is not None:
        return refusal
    try:
        found = _builders().reference_of(request)
    except CandidateFailed as error:
        return pack({"status": error.status, "message": error.message})
    arrays = [np.ascontiguousarray(a) for each in found.expected for a in each]
    names = [[a.dtype.name for a in each] for each in found.expected]
    reply = {"precision": found.precision, "rounds": found.rounds, "dtypes": names}
    return pack(reply, [a.reshape(-1).view(np.uint8).data for a in arrays])


def measure(message: bytes) -> bytes:
    """Check and time a batch, the default first; return outcomes in order."""
    request, parts = unpack(message)
    threads = request["threads"] or default_threads()
    amounts, kind = Amounts(**request["amounts"]), request["kind"]
    workload = on_this_machine(Workload.from_bytes(parts[0]), amounts, kind, threads)
    runner = _runner(kind, threads, RunLimits(**request["limits"]), request["memory"])
    runner.use(workload)
    codes = {n: Code.from_bytes(bytes(part)) for n, part in enumerate(parts[1:])}
    turns = Turns(
        runner,
        workload,
        codes,
        0,
        TurnSettings(**request["turns"]),
        lambda: measured_again(amounts, kind, threads),
    )
    found = turns.run()
    return pack({"outcomes": [_facts_of(found[n]) for n in range(len(codes))]})


def _facts_of(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as a dictionary without its code, which the receiver has."""
    found = asdict(outcome)
    del found["code"]
    return found


def outcome_from(given: dict[str, Any], code: Code) -> Outcome:
    """Return the outcome that was sent as a dictionary."""
    values: dict[str, Any] = {**given, "code": code}
    for name in ("ns", "default_ns"):
        values[name] = tuple(given[name])
    return Outcome(**values)


def _refusal(version: str) -> bytes | None:
    """Return an error if the request comes from another version of the compiler, whose code
    differs.
    """
    if version == fingerprint():
        return None
    text = "a builder of the pool has another version of the compiler; install the same everywhere"
    return pack({"status": LOST, "message": text})
