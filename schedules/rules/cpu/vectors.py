"""Vector loops: split a loop into vectors, several of which are unrolled together.

A polynomial on one vector is a chain of dependent operations with a latency of about four cycles
each, while two could start per cycle. Unrolling several vectors fills the gaps; a reduction gets an
accumulator for each of them.
"""

from __future__ import annotations

from typing import NamedTuple

from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts

SHORT_ROW = 8
"""Maximum vectors of a row that is fully unrolled, so that it can stay in registers, on CPUs with
32 registers."""


class VectorLoops(NamedTuple):
    """The loops into which a loop was split; `group` and `outer` are None if not needed."""

    outer: Loop | None
    """Loop over groups of vectors."""
    group: Loop | None
    """Loop over the vectors of a group, to be unrolled."""
    lane: Loop
    """Loop over the lanes of a vector, to be vectorised."""

    @property
    def all(self) -> list[Loop]:
        """The loops that exist, outermost first."""
        return [each for each in self if each is not None]


def group_size(extent: int, lanes: int, facts: CpuFacts, most: int | None = None) -> int:
    """Return the number of vectors to unroll together along an extent.

    By default this is the number for which registers suffice if a polynomial is computed.
    """
    vectors = -(-extent // lanes)
    if vectors <= short_row(facts):
        return vectors
    size = most or (4 if facts.registers >= 32 else 2)
    # Smaller groups are better than a group that is mostly padding.
    while size > 1 and (-vectors) % size * 4 > vectors:
        size //= 2
    return size


def short_row(facts: CpuFacts) -> int:
    """Return the number of vectors of a row that registers can hold, with room for temporaries."""
    return SHORT_ROW * facts.registers // 32


def split_vectors(sch: Schedule, loop: Loop, lanes: int, group: int) -> VectorLoops:
    """Split a loop into groups of vectors; loop kinds are not set yet."""
    extent = sch.extent(loop)
    if group > 1 and extent > group * lanes:
        return VectorLoops(*sch.split(loop, factors=[None, group, lanes]))
    if group > 1 and extent > lanes:
        return VectorLoops(None, *sch.split(loop, factors=[group, lanes]))
    if extent > lanes:
        outer, lane = sch.split(loop, factors=[None, lanes])
        return VectorLoops(outer, None, lane)
    if extent < lanes and extent > 1:
        _, lane = sch.split(loop, factors=[None, lanes])
        return VectorLoops(None, None, lane)
    return VectorLoops(None, None, loop)


def set_kinds(sch: Schedule, loops: VectorLoops) -> None:
    """Vectorise the lanes and unroll the group."""
    if sch.extent(loops.lane) > 1:
        sch.vectorize(loops.lane)
    if loops.group is not None:
        sch.unroll(loops.group)
