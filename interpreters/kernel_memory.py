"""Memory of a kernel's threads, which records the accesses since the last barrier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from tcopt.support.errors import InputError, TcoptError
from tcopt.support.locations import describe_location, nearest_location

Array = NDArray[Any]
Numbers = NDArray[np.int64]


class RaceError(TcoptError):
    """A kernel's result depends on the order of threads, or a barrier is not reached by all."""

    code = "race"


@dataclass(frozen=True)
class Threads:
    """All threads of a launch, numbered block by block.

    Attributes:
        grid, block: the sizes of the grid and of its blocks.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @property
    def per_block(self) -> int:
        return prod(self.block)

    @property
    def count(self) -> int:
        return prod(self.grid) * self.per_block

    def blocks(self) -> Numbers:
        """Return the number of each thread's block."""
        return np.arange(self.count, dtype=np.int64) // self.per_block

    def name(self, number: int) -> str:
        """Return the name of a thread in messages."""
        block, thread = divmod(number, self.per_block)
        return f"thread {_places(thread, self.block)} of block {_places(block, self.grid)}"


def _places(number: int, sizes: Sequence[int]) -> str:
    places: list[int] = []
    for size in sizes:
        places.append(number % size)
        number //= size
    while len(places) > 1 and sizes[len(places) - 1] == 1:
        places.pop()
    return str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"


class CheckedBuffer:
    """A buffer with a copy for each owner: the launch, a block, or a thread.

    Attributes:
        values: the elements, one copy after the other.
        shape: of one copy.
        owner: the index of each thread's copy.
    """

    def __init__(self, name: str, values: Array, shape: Sequence[int], owner: Numbers):
        self.name = name
        self.values = values
        self.shape = tuple(shape)
        self.owner = owner
        self.size = prod(shape)
        self.watch: list[Watch] = []

    def places(
        self, indices: Sequence[Any], active: Array, op: Operation, *, leaves_row: bool = False
    ) -> Numbers:
        """Return the position in `values` of each thread's element.

        Args:
            leaves_row: whether the last index may exceed its dimension, such as that of a strided
                vector that continues in the next row.
        Raises:
            InputError: an index is out of bounds.
        """
        place: Any = np.zeros(self.owner.shape, np.int64)
        for dim, (index, extent) in enumerate(zip(indices, self.shape, strict=True)):
            beyond = index >= extent
            if leaves_row and dim == len(self.shape) - 1:
                beyond = np.zeros_like(beyond)
            outside = active & ((index < 0) | beyond)
            if outside.any():
                first = int(np.broadcast_to(index, outside.shape)[outside][0])
                raise InputError(
                    f"index {first} is outside of dimension {dim} of %{self.name}, "
                    f"which has {extent} elements",
                    op=op,
                )
            place = place * extent + index
        return self.owner * self.size + place

    def read(self, places: Numbers, who: Numbers, op: Operation) -> None:
        """Record that threads read elements."""
        for watch in self.watch:
            watch.read(self, places, who, op)

    def write(self, places: Numbers, who: Numbers, op: Operation) -> None:
        """Record that threads write elements."""
        for watch in self.watch:
            watch.write(self, places, who, op)


class Watch:
    """Accesses to the elements of a buffer since the parties last synchronised.

    Args:
        elements: number of elements.
        parties: the party of each thread; itself, or its block if blocks are tracked.
        rounds: number of barriers passed by each thread's block; updated by the caller.
    """

    def __init__(self, threads: Threads, elements: int, parties: Numbers, rounds: Numbers):
        self.threads = threads
        self.parties = parties
        self.rounds = rounds
        self.writer = np.full(elements, -1, np.int64)
        self.reader = np.full(elements, -1, np.int64)
        self.several = np.zeros(elements, np.bool_)
        """Whether several parties have read the element."""
        self.written_by: list[Operation] = []
        self.read_by: list[Operation] = []
        self.written_at = np.full(elements, -1, np.int32)
        self.read_at = np.full(elements, -1, np.int32)
        self.write_round = np.full(elements, -1, np.int64)
        self.read_round = np.full(elements, -1, np.int64)

    def read(self, buffer: CheckedBuffer, places: Numbers, who: Numbers, op: Operation) -> None:
        before = self.writer[places]
        fresh = (before >= 0) & (self.write_round[places] == self.rounds[who])
        bad = fresh & (self.parties[before] != self.parties[who])
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            other = self.written_by[self.written_at[places[at]]]
            pair = int(who[at]), int(before[at])
            raise self._error(buffer, int(places[at]), ("reads", "wrote"), pair, (op, other))
        is_new = (self.reader[places] < 0) | (self.read_round[places] != self.rounds[who])
        others = ~is_new & (self.parties[self.reader[places]] != self.parties[who])
        self.several[places[is_new]] = False
        self.several[places[others]] = True
        self.reader[places] = who
        self.several[places[self.parties[self.reader[places]] != self.parties[who]]] = True
        self.read_round[places] = self.rounds[who]
        self.read_at[places] = _number(op, self.read_by)

    def write(self, buffer: CheckedBuffer, places: Numbers, who: Numbers, op: Operation) -> None:
        before = self.writer[places]
        fresh = (before >= 0) & (self.write_round[places] == self.rounds[who])
        bad = fresh & (self.parties[before] != self.parties[who])
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            other = self.written_by[self.written_at[places[at]]]
            pair = int(who[at]), int(before[at])
            raise self._error(buffer, int(places[at]), ("writes", "wrote"), pair, (op, other))
        before = self.reader[places]
        fresh = (before >= 0) & (self.read_round[places] == self.rounds[who])
        bad = fresh & (self.several[places] | (self.parties[before] != self.parties[who]))
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            other = self.read_by[self.read_at[places[at]]]
            pair = int(who[at]), int(before[at])
            raise self._error(buffer, int(places[at]), ("writes", "read"), pair, (op, other))
        self.writer[places] = who
        twice = self.parties[self.writer[places]] != self.parties[who]
        if twice.any():
            at = int(np.flatnonzero(twice)[0])
            pair = int(who[at]), int(self.writer[places[at]])
            raise self._error(buffer, int(places[at]), ("writes", "wrote"), pair, (op, op))
        self.write_round[places] = self.rounds[who]
        self.written_at[places] = _number(op, self.written_by)

    def _error(
        self,
        buffer: CheckedBuffer,
        place: int,
        verbs: tuple[str, str],
        who: tuple[int, int],
        ops: tuple[Operation, Operation],
    ) -> RaceError:
        element = list(np.unravel_index(place % buffer.size, buffer.shape or (1,)))
        now, then = (self.threads.name(number) for number in who)
        if who[0] == who[1]:
            then = "another thread"
        other = f"'{ops[1].name}'" if ops[1] is not ops[0] else "the same op"
        location = describe_location(nearest_location(ops[1]))
        blocks = [number // self.threads.per_block for number in who]
        means = "a barrier" if blocks[0] == blocks[1] else "the end of a launch"
        return RaceError(
            f"{now} {verbs[0]} element {[int(e) for e in element]} of %{buffer.name}, which {then} "
            f"{verbs[1]} by {other}{f' at {location}' if location else ''}, "
            f"without {means} in between",
            op=ops[0],
        )


def _number(op: Operation, ops: list[Operation]) -> int:
    """Return the index of an op in a list, adding it if it is new."""
    for position, each in enumerate(ops):
        if each is op:
            return position
    ops.append(op)
    return len(ops) - 1
