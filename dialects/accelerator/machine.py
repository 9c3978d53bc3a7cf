"""What an accelerator's facts say of the machine that timing and proof look at."""

from __future__ import annotations

from collections.abc import Mapping

from tcopt.dialects.accelerator.tasks import Machine, Queue
from tcopt.dialects.target.accelerator import AcceleratorFacts, Tokens


def machine_for(
    facts: AcceleratorFacts, spaces: Mapping[str, int], local: frozenset[str]
) -> Machine:
    """The machine that executes a program.

    Args:
        spaces: entries of each memory, buffers of the program included.
        local: the accelerator's own among them.
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
    """The name of the queue of tokens between two units."""
    return f"{producer}->{consumer}"
