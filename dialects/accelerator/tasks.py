"""Machine model for timing and proofs: units, token queues, memories, and tasks of the units.

The model is independent of a particular accelerator. It also covers machines with other units,
with barriers or with hardware interlocks (`Task.after`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from tcopt.dialects.target.accelerator import Fetch, Port

__all__ = ["FETCH", "Access", "Entries", "Fetch", "Machine", "Port", "Queue", "Task", "compact"]

Entries = slice | NDArray[np.int64]


@dataclass(frozen=True)
class Queue:
    """A first-in first-out queue of tokens from one unit to another."""

    name: str
    producer: str
    consumer: str
    depth: int


@dataclass(frozen=True)
class Machine:
    """Units that execute their tasks in order.

    Attributes:
        queues: token queues by name.
        spaces: sizes of memories in entries.
        local: memories of the accelerator; the others are external.
    """

    units: Sequence[str]
    queues: Mapping[str, Queue]
    spaces: Mapping[str, int]
    port: Port
    fetch: Fetch
    local: frozenset[str] = frozenset()

    @property
    def priorities(self) -> list[str]:
        """Requesters of the port, highest priority first."""
        return [FETCH, *self.units]


FETCH = "fetch"


@dataclass(frozen=True)
class Access:
    """Entries of a memory that a task reads or writes."""

    space: str
    entries: Entries


@dataclass(frozen=True)
class Task:
    """An instruction in the form that timing and proofs use.

    Attributes:
        pops, pushes: names of queues.
        cycles: for which it occupies its unit, excluding transfers.
        port_cycles: for which it occupies a channel of the port, before the latency.
        channel: the channel of the port.
        after: tasks that must finish first because of barriers or interlocks; `causes` describes
            the reason for each.
        is_end: whether the program ends when the task is done.
        source: the step of the program that it represents.
        place: the ONNX nodes, or the line of a text, that it comes from; empty if unknown.
    """

    number: int
    unit: str
    pops: tuple[str, ...] = ()
    pushes: tuple[str, ...] = ()
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    cycles: int = 0
    port_cycles: int = 0
    channel: str = "port"
    bytes: int = 0
    after: tuple[int, ...] = ()
    causes: tuple[str, ...] = ()
    is_end: bool = False
    source: Operation | None = field(default=None, compare=False, repr=False)
    place: str = ""

    @cached_property
    def text(self) -> str:
        """The instruction as it is printed, without the name of its dialect."""
        if self.source is None:
            return f"task {self.number}"
        return str(self.source).partition(".")[2]

    def cause(self, position: int) -> str:
        """Return the reason for waiting for a task of `after`."""
        return self.causes[position] if self.causes else f"task {self.after[position]}"


def compact(entries: NDArray[np.int64]) -> Entries:
    """Return a slice if sorted distinct entries are contiguous."""
    first, last = int(entries[0]), int(entries[-1])
    return slice(first, last + 1) if last - first + 1 == len(entries) else entries
