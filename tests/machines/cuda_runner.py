"""The tuner's runner on a stand-in for a CUDA device, in a process of its own."""

from __future__ import annotations

from contextlib import ExitStack

from machines.cuda_machine import cuda_machine
from tcopt.support.processes.serving import Answer, Server
from tcopt.tuner.measure import runner_child

_DEVICES = ExitStack()


def start(server: Server, device: str) -> Answer:
    """Return the function that answers requests of a runner."""
    _DEVICES.enter_context(cuda_machine())
    return runner_child.start(server, device)
