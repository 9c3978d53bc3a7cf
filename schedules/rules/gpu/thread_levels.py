"""Loop levels over threads and blocks, for cost model features of spaces."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.schedules.spaces.space import Column, LoopLevel, NestKind
from tcopt.support.arithmetic.columns import ceil_div, least


def deal(
    variables: Sequence[int], left: dict[int, Column], count: Column, kind: NestKind
) -> list[LoopLevel]:
    """Distribute the iterations of some variables over threads, blocks or lanes.

    Args:
        left: remaining iterations of each variable; updated in place.
        count: number of threads, blocks or lanes.
    Returns:
        The loops, the innermost last; inner variables are distributed first.
    """
    levels: list[LoopLevel] = []
    for variable in reversed(variables):
        own = least(count, left[variable])
        count = ceil_div(count, own)
        left[variable] = ceil_div(left[variable], own)
        levels.insert(0, LoopLevel(variable, own, kind))
    return levels
