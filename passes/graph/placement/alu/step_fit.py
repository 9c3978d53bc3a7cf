"""Monotone step functions fitted by a fixed-point multiply, add and shift of integers.

Requantisation from sums to the next layer's integers is a non-decreasing function, so it is defined
by the smallest argument at which it reaches each value.
`(mulh(x << left, factor) + offset) >> right` is the same function if it agrees on both sides of
each such step, which is checked in exact integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_HALF, _BITS = 1 << 30, 31
_MOST = (1 << 31) - 1
_MOST_RIGHT = 22
"""Maximum right shift. Bytes shifted left by this much fit in 32 bits with room for a sum."""
_ROOM = 2
"""Number of bits that a sum may have beyond those of the product."""
_TRIED = 24
"""Number of factors tried on each side of the nearest one."""


@dataclass(frozen=True)
class StepFit:
    """`(mulh(limited(x) << left, factor) + offset) >> right`; all but `left` are by channel.

    Attributes:
        limits: limits to which x is clamped first, so that more of its bits are significant; None
            for no clamp.
    """

    left: int
    factor: Integers
    offset: Integers
    right: Integers
    limits: tuple[Integers, Integers] | None = None

    def __call__(self, x: Integers) -> Integers:
        """Evaluate the function in exact integers."""
        if self.limits is not None:
            x = np.clip(x, *self.limits)
        return (multiply_high(x << self.left, self.factor) + self.offset) >> self.right


@dataclass(frozen=True)
class Steps:
    """Step function of integers, given by the argument at which it reaches each value, by channel.

    Attributes:
        least, most: lower and upper bound of the argument.
        values: values of the function except the smallest, as a column.
        edges: the smallest argument for each value; `most` + 1 if the value is not reached.
    """

    least: Integers
    most: Integers
    values: Integers
    edges: Integers


def multiply_high(x: Integers, factor: Integers | int) -> Integers:
    """Return the rounded high half of twice the product, saturated at the maximum."""
    return np.minimum((x * factor + _HALF) >> _BITS, _MOST)


def steps_of(
    function: Callable[[Integers], Integers],
    least: Integers,
    most: Integers,
    limits: tuple[int, int],
) -> Steps:
    """Return the steps of a non-decreasing function between its limits.

    Args:
        function: function of rows of arguments, with one argument for each channel.
    """
    values = np.arange(limits[0] + 1, limits[1] + 1, dtype=np.int64)[:, None]
    low = np.broadcast_to(least, (len(values), len(least))).copy()
    high = np.broadcast_to(most + 1, low.shape).copy()
    while (low < high).any():
        middle = (low + high) >> 1
        reached = function(np.minimum(middle, most)) >= values
        is_open = low < high
        high = np.where(is_open & reached, middle, high)
        low = np.where(is_open & ~reached, middle + 1, low)
    return Steps(least, most, values, high)


def differing(fit: StepFit, steps: Steps, limits: tuple[int, int]) -> float:
    """Return the fraction of arguments in [least, most] for which the functions differ."""
    found = steps_of(lambda x: np.clip(fit(x), *limits), steps.least, steps.most, limits)
    return float(np.abs(found.edges - steps.edges).sum() / (steps.most - steps.least + 1).sum())


def fit_steps(steps: Steps, slope: NDArray[np.float64], slack: int = 0) -> StepFit | None:
    """Return the cheapest form that equals the function in all channels; None if there is none.

    Args:
        slope: approximate slope of the function.
        slack: maximum deviation from the function's values.
    """
    edges, least, most = steps.edges, steps.least, steps.most
    inside = np.clip(edges[0] - 1, least, most), np.clip(edges[-1], least, most)
    for limits in (None, inside):
        for by_channel in (False, True):
            found = _fit(steps, slope, limits, slack, by_channel=by_channel)
            if found is not None:
                return found
    return None


def _fit(
    steps: Steps,
    slope: NDArray[np.float64],
    limits: tuple[Integers, Integers] | None,
    slack: int,
    *,
    by_channel: bool,
) -> StepFit | None:
    low, high = (steps.least, steps.most) if limits is None else limits
    largest = int(max(np.abs(low).max(initial=1), np.abs(high).max(initial=1), 1))
    bits = np.floor(-np.log2(slope)).astype(np.int64)
    # Use all available bits of the argument, the factor and the sum.
    most = int(min(31 - largest.bit_length(), _MOST_RIGHT - bits.min()))
    for left in range(most, max(most - _ROOM, 0) - 1, -1):
        right = np.minimum(left + bits, _MOST_RIGHT)
        if not by_channel:
            right = np.full_like(right, right.min())
        if right.min() < 0:
            return None
        nearest = np.rint(slope * 2.0 ** (right - left + _BITS)).astype(np.int64)
        found = _offsets(steps, limits, left, right, nearest, slack)
        if found is None:
            return None
        factor, offset = found
        totals = [multiply_high(end << left, factor) + offset for end in (low, high)]
        if max(int(np.abs(total).max(initial=0)) for total in totals) <= _MOST:
            return StepFit(left, factor, offset, right, limits)
    return None


def _offsets(
    steps: Steps,
    limits: tuple[Integers, Integers] | None,
    left: int,
    right: Integers,
    nearest: Integers,
    slack: int,
) -> tuple[Integers, Integers] | None:
    """Return, for each channel, a factor and an offset that place all steps correctly."""
    factor, offset = np.zeros_like(nearest), np.zeros_like(nearest)
    missing = np.arange(len(nearest))
    edges, values = steps.edges, steps.values
    is_reached, is_left = edges <= steps.most, edges > steps.least
    for delta in _deltas():
        tried = nearest[missing] + delta
        goal = values << right[missing]
        at = edges[:, missing]
        up = multiply_high(at << left, tried)
        below = multiply_high((at - 1) << left, tried)
        enough = np.where(is_reached[:, missing], goal - up, -_MOST).max(axis=0)
        few = np.where(is_left[:, missing], goal - 1 - below, _MOST).min(axis=0)
        if limits is not None:
            # Results are not clamped afterwards.
            first, last = (end[missing] << left for end in limits)
            lowest = int(values[0, 0]) - 1 << right[missing]
            highest = int(values[-1, 0]) + 1 << right[missing]
            enough = np.maximum(enough, lowest - multiply_high(first, tried))
            few = np.minimum(few, highest - 1 - multiply_high(last, tried))
        middle = (enough + few) >> 1
        free = slack << right[missing]
        fits = (enough - free <= middle) & (middle <= few + free) & (tried > 0) & (tried <= _MOST)
        done = missing[fits]
        factor[done], offset[done] = tried[fits], middle[fits]
        missing = missing[~fits]
        if not len(missing):
            return factor, offset
    return None


def _deltas() -> Iterator[int]:
    yield 0
    for n in range(1, _TRIED + 1):
        yield n
        yield -n
