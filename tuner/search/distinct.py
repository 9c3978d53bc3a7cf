"""Detection of choices that produce the same schedule, by the loops that they make.

A knob may have no effect: the order of two loops does not matter if one has a single iteration, and
a tile that divides its loop may have no tail. A batch of equivalent choices teaches no more than
one of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tcopt.schedules.spaces.space import Space
from tcopt.tuner.search.moves import Points

_FACTORS = tuple(
    int(each) for each in np.random.default_rng(0).integers(1 << 61, 1 << 62, 4, dtype=np.int64)
)


def signatures(space: Space, points: Points) -> NDArray[np.int64]:
    """Return a hash for each row of positions: equal for choices with equal loops and equal values
    of the knobs in `space.untold`, which the loops do not depend on visibly.
    """
    count = len(points)
    found = np.zeros(count, np.int64)
    untold = set(space.untold)
    with np.errstate(over="ignore"):
        for level in space.nest(space.at(points)):
            extent = np.broadcast_to(np.asarray(level.extent, np.int64), count)
            told = found * _FACTORS[0] + extent * _FACTORS[1]
            told += np.asarray(level.variable, np.int64) * _FACTORS[2]
            told += np.asarray(level.kind, np.int64) * _FACTORS[3]
            told ^= told >> 29
            found = np.where(extent > 1, told, found)
        for place, knob in enumerate(space.knobs):
            if knob.name in untold:
                found = found * _FACTORS[0] + points[:, place] * _FACTORS[1]
                found ^= found >> 29
    return found


def first_of_each(space: Space, points: Points) -> Points:
    """Drop points that repeat the schedule of an earlier one."""
    if not len(points):
        return points
    _, first = np.unique(signatures(space, points), return_index=True)
    return points[np.sort(first)]
