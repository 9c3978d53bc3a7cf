"""Construction of the machine model for timing and proofs from an accelerator's facts."""

from __future__ import annotations

from collections.abc import Mapping

from tcopt.dialects.accelerator.tasks import Machine, Queue
from tcopt.dialects.target.accelerator import AcceleratorFacts, Tokens


def machine_for(
    facts: AcceleratorFacts, spaces: Mapping[str, int], local: frozenset[str]
) -> Machine:
    """Return the model of the machine that executes a program.

    Args:
        spaces: the number of entries of each memory, including the program's buffers.
        local: the names of the accelerator's own memories.
    """
    order = facts.order
    queues: dict[str, Queue] = {}
    if isinstance(order, Tokens):
        for (producer, consumer), depth in order.queues.items():
            name = queue_name(producer, consumer)
            queues[name] = Queue(name, producer, consumer, depth)
    units = list(facts.units)
    return Machine(units, queues, spaces, facts.memory_port, facts.instruction_fetch, local)


def queue_name(producer: str, consumer: str) -> str:
    """Return the name of the token queue between two units."""
    return f"{producer}->{consumer}"
