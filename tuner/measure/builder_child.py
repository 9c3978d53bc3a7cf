"""Child process that compiles candidates; `builders` starts it.

It answers messages, see `support.messages`:

    {"build": true, "text": ..., "rule": ...}        -> {}, code
    {"reference": true, "text": ..., "arguments": ...} -> {"precision": ..., "rounds": ...}, arrays
    {"simulate": true, "target": ...}, code, workload  -> {"ns": ...}

Failures are answered by {"status": ..., "message": ...}.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Any

import numpy as np

from tcopt.support.errors import TcoptError
from tcopt.support.processes.messages import listen, pack, send, unpack
from tcopt.tuner.measure.child_memory import limit_memory, memory_for_child

Facts = dict[str, Any]


def main() -> None:
    """Serve requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Printed output must not be mixed with the messages.
    requests = listen(sys.stdin.buffer)
    limit_memory(memory_for_child())
    gc.disable()
    while True:
        send(replies, _answer(*unpack(requests.get())))
        gc.collect()


def _answer(facts: Facts, parts: list[memoryview]) -> bytes:
    from tcopt.tuner.measure.outcomes import COMPILE_ERROR, CandidateFailed

    try:
        _load(facts.pop("plugins", []))
        if facts.pop("build", False):
            return _build(facts)
        if facts.pop("simulate", False):
            return _simulate(facts, parts)
        return _reference(facts)
    except CandidateFailed as error:
        return pack({"status": error.status, "message": error.message})
    except MemoryError as error:
        return pack({"status": COMPILE_ERROR, "message": f"out of memory: {error}"})
    except TcoptError as error:
        return pack({"status": COMPILE_ERROR, "message": error.message})
    except Exception as error:
        # Any exception of a third-party rule is only a failed candidate.
        return pack({"status": COMPILE_ERROR, "message": f"{type(error).__name__}: {error}"})


_loaded: list[Any] = []


def _load(plugins: list[Any]) -> None:
    """Load the plugins of a request, unless they are loaded already."""
    from tcopt.support.registries.plugin_sources import PluginSource
    from tcopt.support.registries.plugins import take_sources

    if plugins != _loaded:
        take_sources(map(PluginSource.of, plugins))
        _loaded[:] = plugins


def _build(facts: Facts) -> bytes:
    from tcopt.tuner.measure.building import build

    return pack({}, [build(**facts).to_bytes()])


def _simulate(facts: Facts, parts: list[memoryview]) -> bytes:
    from tcopt.tuner.measure.simulation import simulate
    from tcopt.tuner.measure.workload import Workload

    code, workload = map(bytes, parts)
    return pack({"ns": simulate(code, Workload.from_bytes(workload), facts["target"])})


def _reference(facts: Facts) -> bytes:
    from tcopt.tuner.arguments import argument_of
    from tcopt.tuner.measure.reference import reference_of

    arguments = [argument_of(each) for each in facts["arguments"]]
    found = reference_of(facts["text"], arguments)
    arrays = [np.ascontiguousarray(a) for each in found.expected for a in each]
    names = [[a.dtype.name for a in each] for each in found.expected]
    reply = {"precision": found.precision, "rounds": found.rounds, "dtypes": names}
    return pack(reply, [a.reshape(-1).view(np.uint8).data for a in arrays])
