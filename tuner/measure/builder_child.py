"""Child process that compiles candidates; `builders` starts it.

It answers messages, see `support.processes.serving`:

    {"build": true, "text": ..., "rule": ...}        -> {}, code
    {"reference": true, "text": ..., "arguments": ...} -> {"precision": ..., "rounds": ...}, arrays
    {"simulate": true, "target": ...}, code, workload  -> {"ns": ...}

Failures of candidates are answered by {"status": ..., "message": ...}.
"""

from __future__ import annotations

import gc

import numpy as np

from tcopt.support.processes.serving import Answer, Facts, Reply, Server


def start(server: Server) -> Answer:
    """Return the function that answers requests."""
    gc.disable()
    server.after_reply = gc.collect
    return _answer


def _answer(facts: Facts, parts: list[memoryview]) -> Reply:
    from tcopt.tuner.measure.outcomes import CandidateFailed

    try:
        if facts.pop("build", False):
            return _build(facts)
        if facts.pop("simulate", False):
            return _simulate(facts, parts)
        return _reference(facts)
    except CandidateFailed as error:
        return {"status": error.status, "message": error.message}


def _build(facts: Facts) -> Reply:
    from tcopt.tuner.measure.building import build

    return {}, [build(**facts).to_bytes()]


def _simulate(facts: Facts, parts: list[memoryview]) -> Reply:
    from tcopt.tuner.measure.simulation import simulate
    from tcopt.tuner.measure.workload import Workload

    code, workload = map(bytes, parts)
    return {"ns": simulate(code, Workload.from_bytes(workload), facts["target"])}


def _reference(facts: Facts) -> Reply:
    from tcopt.tuner.arguments import argument_of
    from tcopt.tuner.measure.reference import reference_of

    arguments = [argument_of(each) for each in facts["arguments"]]
    found = reference_of(facts["text"], arguments)
    arrays = [np.ascontiguousarray(a) for each in found.expected for a in each]
    names = [[a.dtype.name for a in each] for each in found.expected]
    reply = {"precision": found.precision, "rounds": found.rounds, "dtypes": names}
    return reply, [a.reshape(-1).view(np.uint8).data for a in arrays]
