"""Intervals whose ends may be symbolic sizes, such as `[0, n - 1]` of an index below `n`.

The ends of an interval of numbers are ints, and the functions here then compute the same as
those of `intervals` and `affine`. Bounds of an affine expression substitute the end of each
dimension, so that sizes cancel: with `i` in `[0, n - 1]`, `n - 1 - i` is in `[0, n - 1]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from xdsl.ir.affine import AffineExpr

from tcopt.support.arithmetic.affine import linear_sum, sum_range
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.sizes import Extent, Size, lower_bound, upper_bound

ExtentRange: TypeAlias = tuple[Extent, Extent]
"""Inclusive lower and upper bound."""


def below(extent: Extent) -> ExtentRange:
    """Return the range of an index from 0 to `extent - 1`; (0, 0) for extent 0."""
    if isinstance(extent, Size):
        return 0, extent - 1
    return 0, max(extent - 1, 0)


def number_range(limits: ExtentRange) -> Range:
    """Return the range of numbers that contains an interval for all values of its sizes."""
    low, high = limits
    if not isinstance(low, Size) and not isinstance(high, Size):
        return low, high
    return lower_bound(low), max(upper_bound(high), lower_bound(low))


def number_ranges(ranges: Sequence[ExtentRange]) -> tuple[Range, ...]:
    """Return the `number_range` of each interval."""
    return tuple([number_range(limits) for limits in ranges])


def expression_range(expr: AffineExpr, ranges: Sequence[ExtentRange]) -> ExtentRange:
    """Return inclusive bounds of an affine expression.

    Args:
        ranges: the range of each dimension. One that is a size has both ends equal to it.
    """
    total = linear_sum(expr, number_ranges(ranges))
    # Interval arithmetic only adds, multiplies and divides by ints, which sizes support.
    return sum_range(total, cast("Sequence[Range]", ranges))


def is_in_range(expr: AffineExpr, extent: Extent, ranges: Sequence[ExtentRange]) -> bool:
    """Whether the ranges prove `0 <= expr < extent` for all values of the sizes."""
    low, high = expression_range(expr, ranges)
    return lower_bound(low) >= 0 and lower_bound(extent - high) > 0
