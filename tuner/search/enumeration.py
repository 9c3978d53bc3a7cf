"""Enumeration of all valid choices of a small space, or of a given subset."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tcopt.schedules.spaces.space import Space
from tcopt.tuner.search.distinct import first_of_each
from tcopt.tuner.search.moves import Points, Score, Scores, best_of, is_valid

SMALL = 200_000
"""Maximum size of a space whose choices are all scored, counting invalid ones."""

_CHUNK = 1 << 14


class Enumeration:
    """The valid choices of a small space, computed once.

    Args:
        points: the available choices, if they are a subset of the space.
    """

    def __init__(self, space: Space, points: Points | None = None):
        self.space = space
        if points is not None:
            self.points = points

    @staticmethod
    def suits(space: Space) -> bool:
        """Whether a space is small enough for enumeration."""
        return space.size < SMALL

    @cached_property
    def points(self) -> Points:
        """One choice of each distinct schedule, in the order of the space."""
        found: list[Points] = []
        for start in range(0, self.space.size, _CHUNK):
            points = self.space.points(range(start, min(start + _CHUNK, self.space.size)))
            found.append(points[is_valid(self.space, points)])
        return first_of_each(self.space, np.concatenate(found))

    def draw(self, count: int, rng: np.random.Generator) -> Points:
        """Return random choices, possibly repeated."""
        if not len(self.points):
            return self.points
        return self.points[rng.integers(0, len(self.points), count)]

    def around(self, point: Points, rng: np.random.Generator) -> Points:
        """Return the choices with the fewest different knobs from one, in random order."""
        apart = np.count_nonzero(self.points != point, axis=1)
        apart[apart == 0] = point.size + 1
        near = np.flatnonzero(apart <= max(apart.min(initial=1), 1))
        return self.points[rng.permutation(near)]

    def best(self, score: Score, count: int) -> tuple[Points, Scores]:
        """Return the choices with the highest scores."""
        if not len(self.points):
            return self.points, np.zeros(0)
        return best_of(self.points, score(self.points), count)
