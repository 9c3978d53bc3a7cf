"""Arithmetic of inclusive integer intervals.

Intervals are pairs, so that they unpack cheaply. The analyses of affine expressions, of loops and
of quantised tensors are built on these functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""Inclusive lower and upper bound; empty if the lower bound is greater."""

UNBOUNDED: Range = (-(1 << 62), 1 << 62)
"""Range of an unknown value."""


def range_below(extent: int) -> Range:
    """Return the range of an index from 0 to `extent - 1`; (0, 0) for extent 0."""
    return 0, max(extent - 1, 0)


def extents_to_ranges(extents: Iterable[int]) -> tuple[Range, ...]:
    """Convert extents to ranges: `[n, m]` -> `[(0, n - 1), (0, m - 1)]`; 0 becomes (0, 0)."""
    return tuple([range_below(extent) for extent in extents])


def join(ranges: Iterable[Range]) -> Range:
    """Return the smallest interval that contains all of the intervals, at least one."""
    lows, highs = zip(*ranges, strict=True)
    return min(lows), max(highs)


def meet(a: Range, b: Range) -> Range:
    """Return the intersection of two intervals, which may be empty."""
    return max(a[0], b[0]), min(a[1], b[1])


def is_within(inner: Range, outer: Range) -> bool:
    """Whether one interval is contained in another."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def weighted_sum(constant: int, terms: Iterable[tuple[int, Range]]) -> Range:
    """Return the range of `constant + sum(factor * x)` with each `x` in its range."""
    low = high = constant
    for factor, (least, most) in terms:
        if factor > 0:
            low += factor * least
            high += factor * most
        else:
            low += factor * most
            high += factor * least
    return low, high


def difference(a: Range, b: Range) -> Range:
    """Return the range of `x - y`."""
    return a[0] - b[1], a[1] - b[0]


def quotient(dividend: Range, divisor: int) -> Range:
    """Return the range of `x floordiv divisor` for a positive divisor."""
    return dividend[0] // divisor, dividend[1] // divisor


def remainder(dividend: Range, divisor: int) -> Range:
    """Return the range of `x mod divisor` for a positive divisor."""
    low, high = dividend
    if low // divisor == high // divisor:
        return low % divisor, high % divisor
    return 0, divisor - 1


def multipliers(factor: int, product: Range) -> Range:
    """Return the range of `n` with `factor * n` in `product`, for a factor other than 0."""
    low, high = product
    if factor < 0:
        low, high, factor = -high, -low, -factor
    return -(-low // factor), high // factor
