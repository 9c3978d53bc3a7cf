"""Unrolled taps: filter taps that see only some rows of a tile, unrolled row by row.

A term of a sum is skipped where a factor is out of bounds (see `lower-blocks`). The check can be
made once per tile if the result is the same for all of its rows and vectors. Along a variable for
which it is not, tiles and taps are unrolled, so that the result for each row is a compile-time
constant:

    for each row of a narrow image: unrolled, tile by tile
      for each tap along it: unrolled
        for each channel
          for the rows of the tile that the tap sees: multiply-add
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tcopt.dialects.graph.core.windows import MOST_WRITTEN_TAPS
from tcopt.dialects.loop import LoadOp
from tcopt.dialects.loop.analysis import buffer_shape, value_ranges
from tcopt.schedules.analysis.patterns import BlockPattern
from tcopt.support.arithmetic.affine import Dim, linear_sum, sum_range


@dataclass(frozen=True)
class WrittenTaps:
    """Taps that are unrolled along a spatial variable.

    Attributes:
        variables: the reduce variables that count the taps.
        seen: for each tap, the half-open range of rows for which it is in bounds.
    """

    variables: tuple[int, ...]
    seen: tuple[tuple[int, int], ...]


def written_taps(pattern: BlockPattern, variable: int) -> WrittenTaps | None:
    """Return the taps along a variable, if they are few and no other variable affects bounds."""
    found: list[WrittenTaps] = []
    for term in pattern.terms if pattern.is_contraction else ():
        if not isinstance(term.op, LoadOp) or term.op.default is None:
            continue
        indices = list(term.op.indices)
        ranges = value_ranges(indices)
        for expr, extent in zip(term.op.map.data.results, buffer_shape(term.buffer), strict=True):
            total = linear_sum(expr, ranges)
            low, high = sum_range(total, ranges)
            if low >= 0 and high < extent:
                continue
            factors: dict[int, int] = {}
            for atom, factor in total.terms:
                if not isinstance(atom, Dim):
                    return None
                value = indices[atom.position]
                position = pattern.block.iter_vars.index(value)
                factors[position] = factors.get(position, 0) + factor
            if variable in factors:
                taps = _taps(pattern, variable, factors, total.constant, extent)
                if taps is None:
                    return None
                found.append(taps)
    return found[0] if len(found) == 1 else None


def _taps(
    pattern: BlockPattern, variable: int, factors: dict[int, int], constant: int, extent: int
) -> WrittenTaps | None:
    """Return the taps of one index of an access; None if it is not a window or has too many."""
    step = factors.pop(variable)
    variables = tuple(factors)
    if step < 1 or any(v not in pattern.reduce for v in variables):
        return None
    rows, seen = pattern.extents[variable], list[tuple[int, int]]()
    for places in product(*(range(pattern.extents[v]) for v in variables)):
        at = constant + sum(n * factors[v] for n, v in zip(places, variables, strict=True))
        first, end = max(0, -(at // step)), min(rows, -(-(extent - at) // step))
        seen.append((first, max(first, end)))
    if pairs(seen) > MOST_WRITTEN_TAPS:
        return None
    return WrittenTaps(variables, tuple(seen))


def pairs(seen: Sequence[tuple[int, int]]) -> int:
    """Return the number of pairs of row and tap that are in bounds."""
    return sum(end - first for first, end in seen)
