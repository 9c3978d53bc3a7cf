"""All choices of a small space."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tcopt.schedules.spaces.space import Space
from tcopt.tuner.search.moves import Points, Score, Scores, best_of, is_valid

SMALL = 200_000
"""Choices, valid or not, below which all are scored."""

_CHUNK = 1 << 14


class Enumeration:
    """The valid choices of a small space, made once."""

    def __init__(self, space: Space):
        self.space = space

    @staticmethod
    def suits(space: Space) -> bool:
        """Whether a space is small enough."""
        return space.size < SMALL

    @cached_property
    def points(self) -> Points:
        """All of them, by their numbers."""
        found: list[Points] = []
        for start in range(0, self.space.size, _CHUNK):
            points = self.space.points(range(start, min(start + _CHUNK, self.space.size)))
            found.append(points[is_valid(self.space, points)])
        return np.concatenate(found)

    def best(self, score: Score, count: int) -> tuple[Points, Scores]:
        """The choices of the highest scores."""
        if not len(self.points):
            return self.points, np.zeros(0)
        return best_of(self.points, score(self.points), count)
