"""Worker process that compiles units for the process that started it, see `workers`.

It answers `{"phases": ..., "name": ..., "text": ..., "plugins": ...}` by a serialised kernel.
"""

from __future__ import annotations

import gc

from tcopt.support.processes.serving import Answer, Facts, Reply, Server


def start(server: Server) -> Answer:
    """Import what compiling a unit needs while the parent is still processing the graph."""
    from tcopt.compiler.passes import passes_of, shared_context
    from tcopt.compiler.pipeline import kernel_phases, pipeline
    from tcopt.schedules.rules.rule import rules_for
    from tcopt.support.registries.target_registry import HOST_KIND, target_named

    gc.disable()
    shared_context()
    for phase in kernel_phases(pipeline()):
        passes_of(phase.passes)
    kind = target_named(HOST_KIND)
    rules_for(kind.name)
    kind.warm_up()
    gc.freeze()
    return answer


def answer(facts: Facts, parts: list[memoryview]) -> Reply:
    """Compile a unit."""
    from tcopt.compiler.units import compile_text
    from tcopt.support.pipelines.phases import Phase

    phases = [Phase(*phase) for phase in facts["phases"]]
    return {}, [compile_text(facts["text"], facts["name"], phases).to_bytes()]
