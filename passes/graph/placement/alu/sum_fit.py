"""Approximation of scaled sums of two integers by integer products, sums and a shift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tcopt.passes.graph.placement.alu.step_fit import Integers, multiply_high

_RIGHT = 21
"""Maximum right shift. Bytes shifted left by this much, and their sums, fit in 32 bits."""

_TRIED = 2
"""Number of factors tried on each side of the nearest ones."""


@dataclass(frozen=True)
class SumFit:
    """`(mulh(x << left, factors[0]) + mulh(y << left, factors[1]) + offset) >> right`."""

    left: int
    factors: tuple[int, int]
    offset: int
    right: int

    def __call__(self, x: Integers, y: Integers) -> Integers:
        """Evaluate the function in exact integers."""
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
    """Return a form that has the wanted values for all pairs, within limits; None if there is none.

    Args:
        slack: maximum deviation from the wanted values.
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
        # Values at a limit may exceed it, as they are clamped.
        enough = np.where(wanted - slack > low, (wanted - slack << right) - total, -(1 << 40))
        few = np.where(wanted + slack < high, (wanted + slack + 1 << right) - 1 - total, 1 << 40)
        if enough.max() <= few.min():
            offset = int(max(enough.max(), -(1 << 30)) + min(few.min(), 1 << 30)) >> 1
            if np.abs(total + offset).max() < 1 << 31:
                return SumFit(left, (first, second), offset, right)
    return None
