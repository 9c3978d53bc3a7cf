"""Where convolutions of integers through transformed tiles are exact."""

from __future__ import annotations

import numpy as np

from tcopt.dialects.graph.interfaces import Limits
from tcopt.dialects.graph.types import Array
from tcopt.support.winograd_tables import growth, whole_tables

_LARGEST = (1 << 15) - 1
"""Of what transforms give, in 16 bits. The least number is left out: two products of it with itself
are more than 32 bits hold."""


def inexact(tile: int, taps: int, data: Limits, weights: Array) -> str | None:
    """Why F(tile, taps) of integers may differ from a direct convolution; None if it does not.

    Sums wrap around, which changes no multiple of a result that has 32 bits itself. So transforms
    of data and weights must have 16 bits, and the results, times the power of two that they are
    divided by at last, 32 bits.

    Args:
        data: between which numbers the data is.
        weights: of a convolution of channels in blocks, [O / b, C / a, k, k, a, b].
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
