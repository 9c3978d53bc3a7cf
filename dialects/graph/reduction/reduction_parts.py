"""Splitting of reductions into parts whose results are reduced once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import Attribute

from tcopt.dialects.graph.core.attributes import ReduceKind
from tcopt.dialects.graph.core.types import is_float

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
"""Reduction of each part, and of the parts' results, for parts of equal length."""

COUNTS = (2, 4, 8, 16, 32, 64)
"""Numbers of parts to try, chosen to match numbers of threads and lanes."""

LEAST_PART = 2048
"""Minimum number of elements of a part."""

MOST_RESULTS = 256
"""Maximum number of results for which parts are worthwhile; more occupy all threads anyway."""

WORD_BITS = 32
"""Minimum width of floats whose partial results are rounded no more than the total."""


def combines_exactly(element: Attribute) -> bool:
    """Whether splitting loses no precision. Narrower floats are accumulated in wider ones, and
    integer means round, so both are excluded."""
    width = element.bitwidth if isinstance(element, FixedBitwidthType) else 0
    return is_float(element) and width >= WORD_BITS


def longest_axis(shape: Sequence[int], axes: Sequence[int]) -> int:
    """Return the axis to split: the longest reduced axis, the first of equal ones."""
    return max(axes, key=lambda axis: (shape[axis], -axis))


def even_parts(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of parts that split the longest axis into equal, long parts; () for many
    results."""
    length = prod(shape[axis] for axis in axes)
    if not axes or not length or prod(shape) // length > MOST_RESULTS:
        return ()
    extent = shape[longest_axis(shape, axes)]
    return tuple(n for n in COUNTS if extent % n == 0 and length // n >= LEAST_PART)
