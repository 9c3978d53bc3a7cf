"""Ranges of sizes that are values, from the values of a model's runs."""

from __future__ import annotations

from collections.abc import Mapping

from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.room import room_for
from tcopt.support.errors import SizeRangeError


class ValueRooms:
    """The ranges of the sizes that nothing bounds, for which programs of a model are compiled.

    Attributes:
        ranges: the range of each size by its name: at first the one that the import proposes, with
            room above the value in the run. A value above it makes it wider.
        serve: whether such sizes have ranges; False if the compiler has no program for them.
    """

    def __init__(self) -> None:
        self.ranges: Mapping[str, Range] = {}
        self.serve = True

    def add(self, ranges: Mapping[str, Range]) -> None:
        """Add sizes."""
        self.ranges = {**self.ranges, **ranges}

    def widen(self, error: SizeRangeError) -> bool:
        """Make the range of a size include a value; return whether it may."""
        if error.name not in self.ranges:
            return False
        low, high = self.ranges[error.name]
        if low == high and error.value >= 0:
            # The number was a guess.
            low, high = min(1, error.value), room_for(max(error.value, high))
        elif error.value > high:
            high = room_for(error.value)
        self.add({error.name: (low, high)})
        return low <= error.value <= high
