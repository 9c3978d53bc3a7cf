"""Borders of one number around a tensor, which windows read beyond its edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Border:
    """Elements of one number before and after each axis of a tensor."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    value: float = 0

    @staticmethod
    def spatial(low: Sequence[int], high: Sequence[int], rank: int, value: float = 0) -> Border:
        """A border along the axes after the second one, of a tensor of `rank` axes."""
        rest = (0,) * (rank - 2 - len(low))
        return Border((0, 0, *low, *rest), (0, 0, *high, *rest), value)

    @property
    def is_empty(self) -> bool:
        """Whether there are no such elements."""
        return not any(self.low) and not any(self.high)

    def suits(self, other: Border) -> bool:
        """Whether one border can hold both: elements of both are the same number."""
        return self.is_empty or other.is_empty or self.value == other.value

    def union(self, other: Border) -> Border:
        """The smallest border that holds both, which suit each other."""
        value = other.value if self.is_empty else self.value
        low, high = map(max, self.low, other.low), map(max, self.high, other.high)
        return Border(tuple(low), tuple(high), value)
