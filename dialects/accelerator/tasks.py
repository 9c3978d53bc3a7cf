"""What timing and proof look at: units, queues of tokens, memories, and tasks of the units.

None of it is the accelerator's own. A machine with other units, or one that waits at barriers or
finds hazards itself (`Task.after`), is described in the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.dialects.target.accelerator import Fetch, Port

__all__ = ["FETCH", "Access", "Entries", "Fetch", "Machine", "Port", "Queue", "Task"]

Entries = slice | NDArray[np.int64]


@dataclass(frozen=True)
class Queue:
    """Tokens from one unit to another, in order."""

    name: str
    producer: str
    consumer: str
    depth: int


@dataclass(frozen=True)
class Machine:
    """Units that execute tasks, each its own in order.

    Attributes:
        queues: of tokens, by name.
        spaces: sizes of memories in entries.
        local: those of the accelerator, the others are memory outside of it.
    """

    units: Sequence[str]
    queues: Mapping[str, Queue]
    spaces: Mapping[str, int]
    port: Port
    fetch: Fetch
    local: frozenset[str] = frozenset()

    @property
    def priorities(self) -> list[str]:
        """Who asks for the port, the most urgent first."""
        return [FETCH, *self.units]


FETCH = "fetch"


@dataclass(frozen=True)
class Access:
    """Entries of a memory that a task reads or writes."""

    space: str
    entries: Entries


@dataclass(frozen=True)
class Task:
    """An instruction, as timing and proof see it.

    Attributes:
        pops, pushes: names of queues.
        cycles: for which the unit is busy by itself.
        port_cycles: of a channel of the port, after which its latency passes.
        channel: which one.
        after: numbers of tasks that are done before it starts, by what else the machine has;
            `causes`: what that is, in words, for each.
        is_end: whether the program is over when it is done.
        text: what it does, in words.
        source: the instruction, or the op that it is.
        place: the ONNX nodes, or the line of a text, that it comes from; empty if none is known.
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
    text: str = ""
    source: Any = field(default=None, compare=False, repr=False)
    place: str = ""

    def cause(self, position: int) -> str:
        """What it waits for where that is a task of `after`."""
        return self.causes[position] if self.causes else f"task {self.after[position]}"
