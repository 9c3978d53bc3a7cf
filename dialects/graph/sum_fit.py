"""Scaled sums of two integers as products, sums and a shift of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tcopt.dialects.graph.step_fit import Integers, multiply_high

_RIGHT = 21
"""Bytes shifted to the left so far, and their sums, fit 32 bits."""

_TRIED = 2
"""Factors that are tried on each side of the nearest ones."""


@dataclass(frozen=True)
class SumFit:
    """`(mulh(x << left, factors[0]) + mulh(y << left, factors[1]) + offset) >> right`."""

    left: int
    factors: tuple[int, int]
    offset: int
    right: int

    def __call__(self, x: Integers, y: Integers) -> Integers:
        """The function, in exact integers."""
        first, second = self.factors
        total = multiply_high(x << self.left, first) + multiply_high(y << self.left, second)
        return (total + self.offset) >> self.right


def fit_sum(
    x: Integers,
    y: Integers,
    wanted: Integers,
    slopes: Sequence[float],
    limits: tuple[int, int],
    slack: int = 0,
) -> SumFit | None:
    """The form that has the wanted value for all pairs, within limits; None if there is none.

    Args:
        slack: how far from the wanted values others may be.
    """
    largest = int(max(np.abs(x).max(initial=1), np.abs(y).max(initial=1)))
    left = 31 - largest.bit_length()
    places = int(np.floor(-np.log2(max(slopes))))
    right = min(_RIGHT, left + places)
    if right < 0:
        return None
    nearest = [int(np.rint(slope * 2.0 ** (right - left + 31))) for slope in slopes]
    low, high = limits
    for deltas in product(*[sorted(range(-_TRIED, _TRIED + 1), key=abs)] * 2):
        first, second = (n + d for n, d in zip(nearest, deltas, strict=True))
        if not (0 < first < 1 << 31 and 0 < second < 1 << 31):
            continue
        total = multiply_high(x << left, first)
        total = total + multiply_high(y << left, second)
        # What is limited may be anything beyond.
        enough = np.where(wanted - slack > low, (wanted - slack << right) - total, -(1 << 40))
        few = np.where(wanted + slack < high, (wanted + slack + 1 << right) - 1 - total, 1 << 40)
        if enough.max() <= few.min():
            offset = int(max(enough.max(), -(1 << 30)) + min(few.min(), 1 << 30)) >> 1
            if np.abs(total + offset).max() < 1 << 31:
                return SumFit(left, (first, second), offset, right)
    return None
