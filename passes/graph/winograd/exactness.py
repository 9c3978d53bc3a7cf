"""Conditions under which Winograd convolutions of integers are exact."""

from __future__ import annotations

import numpy as np

from tcopt.dialects.graph.core.types import Array
from tcopt.support.arithmetic.intervals import Range
from tcopt.support.arithmetic.winograd_tables import growth, whole_tables

_LARGEST = (1 << 15) - 1
"""Maximum magnitude of transformed values, in 16 bits. The minimum integer is excluded, because the
sum of two products of it with itself overflows 32 bits."""


def inexact(tile: int, taps: int, data: Range, weights: Array) -> str | None:
    """Return why F(tile, taps) of integers may differ from a direct convolution, or None.

    Sums wrap around, which does not affect results that fit in 32 bits. So transforms of data and
    weights must fit in 16 bits; the results, times the power of two by which they are finally
    divided, must fit in 32.

    Args:
        data: bounds of the data's values.
        weights: weights of a convolution of channels in blocks, [O / b, C / a, k, k, a, b].
    """
    tables = whole_tables(tile, taps)
    largest = max(0, data[1], -data[0])
    if growth(tables.input) ** 2 * largest > _LARGEST:
        return f"transforms of data up to {largest} may exceed 16 bits"
    magnitudes = np.abs(weights.astype(np.int64))
    if growth(tables.weight) ** 2 * int(magnitudes.max(initial=0)) > _LARGEST:
        return f"transforms of weights up to {magnitudes.max()} may exceed 16 bits"
    multiple = tables.scale**2
    sums = int(magnitudes.sum(axis=(1, 2, 3, 4)).max(initial=0)) * largest
    if (multiple & -multiple) * sums >= 1 << 31:
        return f"{multiple & -multiple} times sums up to {sums} may exceed 32 bits"
    return None
