"""Vector loops: a loop cut into vectors, several of them written out side by side.

One vector's worth of a polynomial is a chain of dependent operations, each of which takes
about four cycles while two could start in each. Several vectors written out next to each
other fill the gaps; a reduction gets an accumulator for each of them.
"""

from __future__ import annotations

from typing import NamedTuple

from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.cpu.facts import CpuFacts

SHORT_ROW = 8
"""Vectors of a row up to which it is written out, so that it can stay in registers, on CPUs
with 32 of them."""


class VectorLoops(NamedTuple):
    """What a loop became. `group` and `outer` are None where one iteration is enough."""

    outer: Loop | None
    """Over groups of vectors."""
    group: Loop | None
    """Over the vectors of a group, to be unrolled."""
    lane: Loop
    """Over the lanes of a vector, to be vectorized."""

    @property
    def all(self) -> list[Loop]:
        """The loops that exist, outermost first."""
        return [each for each in self if each is not None]


def group_size(extent: int, lanes: int, facts: CpuFacts, most: int | None = None) -> int:
    """How many vectors to write out side by side along an extent, by default as many as
    registers have room for with what a polynomial needs."""
    vectors = -(-extent // lanes)
    if vectors <= short_row(facts):
        return vectors
    size = most or (4 if facts.registers >= 32 else 2)
    # Rather smaller groups than a group that is mostly tail.
    while size > 1 and (-vectors) % size * 4 > vectors:
        size //= 2
    return size


def short_row(facts: CpuFacts) -> int:
    """Vectors of a row that registers can keep, beside what is computed from them."""
    return SHORT_ROW * facts.registers // 32


def split_vectors(sch: Schedule, loop: Loop, lanes: int, group: int) -> VectorLoops:
    """Cut a loop into groups of vectors; kinds are not set yet."""
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
    """Vectorize the lanes and unroll the group."""
    if sch.extent(loops.lane) > 1:
        sch.vectorize(loops.lane)
    if loops.group is not None:
        sch.unroll(loops.group)
