"""Positions and weights of the elements that a resize reads, as tables and as expressions."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import numpy as np

from tcopt.dialects.graph.core.types import Array
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed, lower_bound, upper_bound
from tcopt.support.errors import UndecidedSize

FAR = 2**40
"""Limit to which coordinates are clamped; all beyond it are far out of bounds."""


def cubic_weight(distance: Array, a: float) -> Array:
    """Return the weight of an element at a distance from the coordinate, in cubic interpolation."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def te_cubic_weight(distance: te.Expr, a: float) -> te.Expr:
    square = distance * distance
    near = ((a + 2) * distance - (a + 3)) * square + 1.0
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    zero = te.const(0.0, distance.dtype)
    return te.select(distance <= 1.0, near, te.select(distance < 2.0, far, zero))


def clamped(place: te.Expr, extent: int) -> te.Expr:
    """Convert an integral float to an integer, clamped to an axis."""
    return te.saturate(place, 0, extent - 1, "i32")


def floor_positions(place: Array) -> Array:
    return np.clip(np.floor(place), -FAR, FAR).astype(np.int64)


def times(factor: float, extent: int, dtype: str) -> te.Expr:
    if is_fixed((extent,)):
        return te.const(factor * extent, dtype)
    return te.const(factor, dtype) * te.const(extent, dtype)


def at_least_one(extent: int, dtype: str) -> te.Expr:
    """Return an extent as a divisor; results of one element ignore the quotient."""
    number = te.const(extent, dtype)
    return number if lower_bound(extent) >= 1 else te.maximum(number, 1.0)


def unless_single(extent: int, several: te.Expr, single: te.Expr) -> te.Expr:
    """Choose a coordinate by whether the result has several elements along the axis."""
    if extent == 1:
        return single
    if lower_bound(extent) > 1:
        return several
    return te.select(te.const(extent, several.dtype) > 1.0, several, single)


def constant_ratio(new: int, old: int) -> float | None:
    """Return the ratio of two extents; None for sizes whose ratio varies."""
    if is_fixed((new, old)):
        return new / old
    ratio = Fraction(upper_bound(new), max(upper_bound(old), 1))
    return float(ratio) if new * ratio.denominator == old * ratio.numerator else None


Division: TypeAlias = tuple[int, int, int]
"""Numbers (a, b, c) of the function (i * a + b) // c."""

_LARGEST_NUMBER = 1 << 40


def is_below(division: Division, new: int, limit: int) -> bool:
    """Whether the quotients of all indices below `new` are certainly below a limit."""
    scale, offset, divisor = division
    try:
        return ((new - 1) * scale + offset) // divisor < limit
    except UndecidedSize:
        return False


def fit_division(table: Array, slope: float) -> Division | None:
    """Return small (a, b, c) with table[i] == (i * a + b) // c for every i; None if there are
    none."""
    ratio = Fraction(slope).limit_denominator(1 << 12)
    a, c = ratio.numerator, ratio.denominator
    if not table.size or abs(a) * table.size > _LARGEST_NUMBER:
        return None
    places = np.arange(table.size)
    for factor in (1, 2):
        scaled = places * a * factor
        divisor = c * factor
        # b must satisfy table * divisor <= scaled + b < (table + 1) * divisor everywhere.
        low = int(np.max(table * divisor - scaled, initial=-_LARGEST_NUMBER))
        high = int(np.min((table + 1) * divisor - scaled, initial=_LARGEST_NUMBER))
        if low < high:
            return a * factor, low, divisor
    return None
