"""Copies to shared memory by all warps of a block.

All elements are numbered and threads take one after the other, or, where elements are copied one by
one and rows are long enough, each warp takes rows and its lanes go along them:

    for each 32 places of a row:
      for each row of the warp:  copy an element

Where in the row a lane is, and whether that is inside of the source, is then found out once for all
rows, instead of for each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from tcopt.schedules.api.handles import Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.gpu.threads import share_work

MOST_IDLE = 1.25
"""How many more turns than threads would take for all elements are worth it."""

WRITTEN_OUT = 16
"""Rows of a warp that are written out."""


def goes_by_rows(extents: Sequence[int], warps: int, lanes: int, vector: int) -> bool:
    """Whether warps take rows of a copy, the first of whose loops is over them."""
    if len(extents) < 2 or vector > 1:
        return False
    rows, row = extents[0], prod(extents[1:])
    turns = ceil(rows / warps) * ceil(row / lanes)
    return rows > warps and turns <= MOST_IDLE * ceil(rows * row / (warps * lanes))


def with_spare_places(extents: Sequence[int], warps: int, lanes: int, vector: int) -> list[int]:
    """The extents of a copy with the places beyond the end that its last turns leave threads."""
    whole = list(extents)
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
    sch: Schedule, loops: Sequence[Loop], warps: int, lanes: int, vector: int
) -> None:
    """Let all warps of a block run a copy.

    Args:
        loops: of the copy, outermost first.
        vector: neighbours along the innermost loop that a thread handles as a vector.
    """
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
