"""Borders of zeros around a tensor, which windows read beyond its edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Border:
    """Elements of zero before and after each axis of a tensor."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @staticmethod
    def spatial(low: Sequence[int], high: Sequence[int], rank: int) -> Border:
        """A border along the axes after the second one, of a tensor of `rank` axes."""
        rest = (0,) * (rank - 2 - len(low))
        return Border((0, 0, *low, *rest), (0, 0, *high, *rest))

    @property
    def is_empty(self) -> bool:
        """Whether there are no such elements."""
        return not any(self.low) and not any(self.high)

    def union(self, other: Border) -> Border:
        """The smallest border that holds both."""
        return Border(tuple(map(max, self.low, other.low)), tuple(map(max, self.high, other.high)))
