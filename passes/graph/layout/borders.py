"""Constant borders around a tensor, which windows read beyond its edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Border:
    """Elements of one value before and after each axis of a tensor."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    value: float = 0

    @staticmethod
    def spatial(low: Sequence[int], high: Sequence[int], rank: int, value: float = 0) -> Border:
        """Return a border along the axes after the second of a tensor of `rank` axes."""
        rest = (0,) * (rank - 2 - len(low))
        return Border((0, 0, *low, *rest), (0, 0, *high, *rest), value)

    @property
    def is_empty(self) -> bool:
        """Whether the border has no elements."""
        return not any(self.low) and not any(self.high)

    def suits(self, other: Border) -> bool:
        """Whether one border can contain both: their values are equal."""
        return self.is_empty or other.is_empty or self.value == other.value

    def union(self, other: Border) -> Border:
        """Return the smallest border that contains both; requires `suits`."""
        value = other.value if self.is_empty else self.value
        low, high = map(max, self.low, other.low), map(max, self.high, other.high)
        return Border(tuple(low), tuple(high), value)
