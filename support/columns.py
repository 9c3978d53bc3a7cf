"""Formulas over numbers or columns: one text for one choice and for a hundred thousand.

    cycles = most(products / 2, loads / 2) * ceil_div(extent, size)

gives a number for numbers, and a numpy array where any of them is one. Plain operators do the same
by themselves; these are for what Python's `max`, `ceil` and `if` say of numbers alone.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, cast

import numpy as np

Column = Any
"""A number, or a numpy array of one number for each choice."""


def most(*values: Column) -> Column:
    """The largest of some values."""
    for value in values:
        if is_column(value):
            return reduce(np.maximum, values)
    return max(values)


def least(*values: Column) -> Column:
    """The smallest of some values."""
    for value in values:
        if is_column(value):
            return reduce(np.minimum, values)
    return min(values)


def where(condition: Column, yes: Column, no: Column) -> Column:
    """One value where a condition holds, another where it does not; both are computed."""
    if is_column(condition):
        return cast(Any, np.where(condition, yes, no))
    return yes if condition else no


def ceil_div(number: Column, divisor: Column) -> Column:
    """An integer quotient, rounded up."""
    return -(-number // divisor)


def nearest(number: Column) -> Column:
    """The nearest integer, of two the even one."""
    return np.rint(number) if is_column(number) else round(number)


def is_column(value: Column) -> bool:
    """Whether it is one number for each of many choices."""
    return isinstance(value, np.ndarray)
