"""Copies to shared memory by all warps of a block.

Usually, elements are numbered and distributed over all threads. If elements are copied one by one
and rows are long enough, each warp copies whole rows, with its lanes along them:

    for each 32 elements of a row:
      for each row of the warp:  copy an element

The position of a lane in the row, and whether it is in bounds, is then computed once for all rows
instead of for each element.

If rows become contiguous in shared memory, as channels of an image, each lane gathers elements of
eight rows, and stores them as a vector:

    for each 32 elements of a row, and each eight rows, distributed over warps:
      for each of the eight rows:  copy an element
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.threads import share_work

MOST_IDLE = 1.25
"""Maximum overhead in iterations, relative to a distribution over all threads."""

WRITTEN_OUT = 16
"""Maximum number of unrolled rows of a warp."""


GATHERED = 8
"""Elements that a lane gathers: 16 bytes of 16-bit elements."""


def is_gathered(extents: Sequence[int], deep: int | None) -> bool:
    """Whether lanes gather elements along the loop at position `deep`."""
    return deep is not None and len(extents) > 1 and extents[deep] % GATHERED == 0


def goes_by_rows(extents: Sequence[int], warps: int, lanes: int, vector: int) -> bool:
    """Whether warps copy whole rows; the first extent is the number of rows."""
    if len(extents) < 2 or vector > 1:
        return False
    rows, row = extents[0], prod(extents[1:])
    turns = ceil(rows / warps) * ceil(row / lanes)
    return rows > warps and turns <= MOST_IDLE * ceil(rows * row / (warps * lanes))


def with_spare_places(
    extents: Sequence[int], warps: int, lanes: int, vector: int, deep: int | None = None
) -> list[int]:
    """Return the extents of a copy with room for elements written beyond its end.

    The last iteration of some threads writes there.
    """
    whole = list(extents)
    if deep is not None and is_gathered(extents, deep):
        groups = extents[deep] // GATHERED
        first, *rest = (dim for dim in range(len(extents)) if dim != deep)
        inner = prod(extents[dim] for dim in rest)
        parts = ceil(extents[first] * inner / lanes)
        turns = ceil(parts * groups / warps)
        whole[first] = ceil(ceil(turns * warps / groups) * lanes / inner)
        return whole
    if goes_by_rows(extents, warps, lanes, vector):
        row = prod(extents[1:])
        whole[0] = ceil(extents[0] / warps) * warps
        whole[1] = ceil(ceil(row / lanes) * lanes / (row // extents[1]))
    elif whole:
        at_once = warps * lanes * vector
        turns = ceil(prod(extents) / at_once)
        whole[0] = ceil(turns * at_once / prod(extents[1:]))
    return whole


def copy_by_warps(
    sch: Schedule,
    loops: Sequence[Loop],
    warps: int,
    lanes: int,
    vector: int,
    deep: int | None = None,
) -> None:
    """Distribute a copy over all warps of a block.

    Args:
        loops: loops of the copy, outermost first.
        vector: adjacent elements along the innermost loop that a thread handles as a vector.
        deep: position of the loop along which elements are contiguous in shared memory, but not in
            memory; None if there is none.
    """
    if deep is not None and is_gathered([sch.extent(each) for each in loops], deep):
        _gather(sch, loops, warps, lanes, deep)
        return
    if not goes_by_rows([sch.extent(each) for each in loops], warps, lanes, vector):
        share_work(sch, loops, (warps, lanes), vector)
        return
    rows, *along = loops
    row, warp = sch.split(rows, [None, warps])
    part, lane = sch.split(sch.fuse(*along) if len(along) > 1 else along[0], [None, lanes])
    sch.reorder(part, warp, lane, row)
    sch.bind(warp, "threadIdx.y")
    sch.bind(lane, "threadIdx.x")
    if sch.extent(row) <= WRITTEN_OUT:
        sch.unroll(row)


def _gather(sch: Schedule, loops: Sequence[Loop], warps: int, lanes: int, deep: int) -> None:
    """Let each lane copy `GATHERED` elements along a loop, of one position along the others."""
    group, element = sch.split(loops[deep], [None, GATHERED])
    others = [each for position, each in enumerate(loops) if position != deep]
    sch.reorder(*others, group, element)
    part, lane = sch.split(sch.fuse(*others) if len(others) > 1 else others[0], [None, lanes])
    sch.reorder(part, group, lane, element)
    _, warp = sch.split(sch.fuse(part, group), [None, warps])
    sch.bind(warp, "threadIdx.y")
    sch.bind(lane, "threadIdx.x")
    sch.unroll(element)
