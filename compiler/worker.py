"""Worker process that compiles units for the process that started it, see `workers`.

It reads requests from standard input and answers each on standard output:

    {"phases": ..., "name": ..., "text": ..., "plugins": ...}  ->  `+` and a kernel, or `-` and why

It exits when its input is closed, even while compiling, so it never outlives its parent.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys

from tcopt.support.processes.messages import listen, receive, send

__all__ = ["main", "receive", "send"]


def main() -> None:
    """Serve requests until the input is closed."""
    # The parent closes the pipe to end the worker; interrupts are meant for the parent only.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Printed text must not be mixed with the replies.
    requests = listen(sys.stdin.buffer)
    gc.disable()
    _load()
    while True:
        send(replies, _answer(requests.get()))


def _load() -> None:
    """Import what compiling a unit needs while the parent is still processing the graph."""
    from tcopt.compiler.passes import passes_of, shared_context
    from tcopt.compiler.pipeline import kernel_phases, pipeline
    from tcopt.schedules.rules.rule import rules_for
    from tcopt.support.registries.target_registry import HOST_KIND, target_named

    shared_context()
    for phase in kernel_phases(pipeline()):
        passes_of(phase.passes)
    kind = target_named(HOST_KIND)
    rules_for(kind.name)
    kind.warm_up()
    gc.freeze()


def _answer(message: bytes) -> bytes:
    from tcopt.compiler.units import compile_text
    from tcopt.support.pipelines.phases import Phase
    from tcopt.support.registries.plugin_sources import PluginSource
    from tcopt.support.registries.plugins import take_sources

    try:
        request = json.loads(message)
        take_sources(map(PluginSource.of, request["plugins"]))
        phases = [Phase(*phase) for phase in request["phases"]]
        return b"+" + compile_text(request["text"], request["name"], phases).to_bytes()
    except Exception as error:
        return b"-" + f"{type(error).__name__}: {error}".encode()
