"""Reductions as those of parts, whose results are reduced once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import Attribute

from tcopt.dialects.graph.attributes import ReduceKind
from tcopt.dialects.graph.types import is_float

OF_PARTS: Mapping[ReduceKind, tuple[ReduceKind, ReduceKind]] = {
    ReduceKind.SUM: (ReduceKind.SUM, ReduceKind.SUM),
    ReduceKind.MEAN: (ReduceKind.MEAN, ReduceKind.MEAN),
    ReduceKind.MAX: (ReduceKind.MAX, ReduceKind.MAX),
    ReduceKind.MIN: (ReduceKind.MIN, ReduceKind.MIN),
    ReduceKind.PROD: (ReduceKind.PROD, ReduceKind.PROD),
    ReduceKind.L1: (ReduceKind.L1, ReduceKind.SUM),
    ReduceKind.SUM_SQUARE: (ReduceKind.SUM_SQUARE, ReduceKind.SUM),
    ReduceKind.L2: (ReduceKind.L2, ReduceKind.L2),
    ReduceKind.LOG_SUM: (ReduceKind.SUM, ReduceKind.LOG_SUM),
}
"""What parts of equal length are reduced by, and then their results."""

COUNTS = (2, 4, 8, 16, 32, 64)
"""Numbers of parts that are worth trying: those of threads and vectors."""

LEAST_PART = 2048
"""Elements of a part that are worth a result of its own."""

MOST_RESULTS = 256
"""Results from which on there is work enough for all threads without parts."""

WORD_BITS = 32
"""Numbers as wide are as exact in between as they are at the end."""


def combines_exactly(element: Attribute) -> bool:
    """Whether results of parts lose nothing that the whole would keep: floats of fewer bits are
    added up in wider ones, and integers have means of their own."""
    width = element.bitwidth if isinstance(element, FixedBitwidthType) else 0
    return is_float(element) and width >= WORD_BITS


def longest_axis(shape: Sequence[int], axes: Sequence[int]) -> int:
    """The axis that is divided: the longest of those reduced, of equal ones the first."""
    return max(axes, key=lambda axis: (shape[axis], -axis))


def even_parts(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Numbers of parts of the longest axis that are equal and long; none of many results."""
    length = prod(shape[axis] for axis in axes)
    if not axes or not length or prod(shape) // length > MOST_RESULTS:
        return ()
    extent = shape[longest_axis(shape, axes)]
    return tuple(n for n in COUNTS if extent % n == 0 and length // n >= LEAST_PART)
