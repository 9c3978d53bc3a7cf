"""Formulas that work on numbers and on arrays: one formula for one or many configurations.

    cycles = most(products / 2, loads / 2) * ceil_div(extent, size)

returns a number if all operands are numbers, and a numpy array if any is one. The functions here
replace Python's `max`, `ceil` and `if`, which only support numbers.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, cast

import numpy as np

Column = Any
"""A number, or a numpy array with one number per configuration."""


def most(*values: Column) -> Column:
    """Return the elementwise maximum."""
    for value in values:
        if is_column(value):
            return reduce(np.maximum, values)
    return max(values)


def least(*values: Column) -> Column:
    """Return the elementwise minimum."""
    for value in values:
        if is_column(value):
            return reduce(np.minimum, values)
    return min(values)


def where(condition: Column, yes: Column, no: Column) -> Column:
    """Select elementwise by a condition; both alternatives are evaluated."""
    if is_column(condition):
        return cast(Any, np.where(condition, yes, no))
    return yes if condition else no


def ceil_div(number: Column, divisor: Column) -> Column:
    """Divide integers, rounding up."""
    return -(-number // divisor)


def nearest(number: Column) -> Column:
    """Round to the nearest integer, ties to even."""
    return np.rint(number) if is_column(number) else round(number)


def is_column(value: Column) -> bool:
    """Whether a value is an array with one number per configuration."""
    return isinstance(value, np.ndarray)
