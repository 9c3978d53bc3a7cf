"""Elementwise operators as functions of integers that may be sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from tcopt.dialects.graph.core.attributes import ComparePredicate
from tcopt.support.arithmetic.sizes import Extent, bounds_of, lower_bound
from tcopt.support.errors import UndecidedSize


def is_equal(a: Extent, b: Extent) -> bool:
    """Whether two extents have equal values.

    Raises:
        UndecidedSize: some values of sizes are equal, and others are not.
    """
    low, high = bounds_of(a - b)
    if low == high == 0:
        return True
    if low <= 0 <= high:
        raise UndecidedSize(str(a), "=", str(b))
    return False


def differs(a: Extent, b: Extent) -> bool:
    """Whether two extents have different values; see `is_equal`."""
    return not is_equal(a, b)


SIZE_COMPARISONS: Mapping[ComparePredicate, Callable[[Extent, Extent], bool]] = {
    ComparePredicate.EQ: is_equal,
    ComparePredicate.NE: differs,
    ComparePredicate.LT: operator.lt,
    ComparePredicate.LE: operator.le,
    ComparePredicate.GT: operator.gt,
    ComparePredicate.GE: operator.ge,
}


def truncated_quotient(a: Extent, b: Extent) -> Extent:
    """Return the quotient rounded towards zero.

    Raises:
        UndecidedSize: the sign of an operand depends on sizes, or the quotient has no form.
        ZeroDivisionError: the divisor may be 0.
    """
    if b < 0:
        a, b = -a, -b
    if lower_bound(b) <= 0:
        raise ZeroDivisionError
    return a // b if a >= 0 else -(-a // b)


def chosen(condition: bool, a: Extent, b: Extent) -> Extent:
    """Return one of two extents."""
    return a if condition else b
