"""Loops of a nest that threads and blocks share, as spaces tell of them."""

from __future__ import annotations

from collections.abc import Sequence

from tcopt.schedules.spaces.space import Column, LoopLevel, NestKind
from tcopt.support.columns import ceil_div, least


def deal(
    variables: Sequence[int], left: dict[int, Column], count: Column, kind: NestKind
) -> list[LoopLevel]:
    """The loops of so many threads, blocks or lanes that share the iterations of some variables,
    the innermost first.

    Args:
        left: iterations of each variable; those that are dealt out are taken from it.
    """
    levels: list[LoopLevel] = []
    for variable in reversed(variables):
        own = least(count, left[variable])
        count = ceil_div(count, own)
        left[variable] = ceil_div(left[variable], own)
        levels.insert(0, LoopLevel(variable, own, kind))
    return levels
