"""Index maps that are permutations, i.e. bijections between the points of two boxes.

An index such as `d0 * 64 + d1` is a number in mixed radix, see `digits`. A map is a permutation if
every index consists of digits in order, and every axis is split completely into digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from tcopt.support.arithmetic.affine import (
    Atom,
    Dim,
    FloorDiv,
    LinearSum,
    Mod,
    linear_sum,
    simplify,
    substitute,
)
from tcopt.support.arithmetic.digits import Digit, digit_of
from tcopt.support.arithmetic.intervals import Range, extents_to_ranges


def inverse_permutation(
    indices: Sequence[AffineExpr], extents: Sequence[int], source: Sequence[int]
) -> tuple[AffineExpr, ...] | None:
    """Invert an index map that is a permutation.

    Args:
        indices: indices of the element read, in terms of the axes.
        extents: extents of the axes.
        source: extents of the tensor that is read.
    Returns:
        Each axis in terms of the indices; None if an element is not read exactly once.
    """
    if prod(extents) != prod(source):
        return None
    ranges = extents_to_ranges(extents)
    parts: dict[int, list[tuple[Digit, AffineExpr]]] = {}
    for place, expr in enumerate(indices):
        digits = _digits(linear_sum(expr, ranges), ranges)
        if digits is None or prod(digit.extent for _, digit in digits) != source[place]:
            return None
        below = 1
        for axis, digit in digits:
            value = AffineDimExpr(place) // below % digit.extent
            parts.setdefault(axis, []).append((digit, value))
            below *= digit.extent
    axes: list[AffineExpr] = []
    bounds = extents_to_ranges(source)
    for axis, extent in enumerate(extents):
        total: AffineExpr = AffineConstantExpr(0)
        below = 1
        for digit, value in sorted(parts.get(axis, ()), key=lambda part: part[0].lower):
            if digit.lower != below:
                return None
            total = total + value * below
            below *= digit.extent
        if below != extent:
            return None
        axes.append(simplify(total, bounds))
    return tuple(axes)


def _digits(total: LinearSum, ranges: Sequence[Range]) -> list[tuple[int, Digit]] | None:
    """Split an index into (axis, digit) pairs, least significant first; None if it is not a number
    in mixed radix.
    """
    found: list[tuple[int, Digit]] = []
    below = 1
    for atom, factor in sorted(total.terms, key=lambda term: term[1]):
        digit = digit_of(atom, ranges)
        if digit.dim is None or factor != below:
            return None
        found.append((digit.dim, digit))
        below *= digit.extent
    return None if total.constant else found


def stride_in_groups(
    exprs: Sequence[AffineExpr],
    extents: Sequence[int],
    dim: int,
    group: int,
    shape: Sequence[int],
) -> int | None:
    """Return the stride between neighbours along a dimension, within groups of neighbours.

    Args:
        exprs: indices of each point, in terms of the dimensions.
        extents: extents of the dimensions.
        dim: the dimension that is divided into groups.
        group: number of neighbours in a group.
        shape: extents of the row-major tensor that is indexed.
    Returns:
        The stride in elements; None if it is not constant within groups.
    """
    ranges: list[Range] = [*extents_to_ranges(extents), (0, group - 1)]
    ranges[dim] = (0, max(-(-extents[dim] // group) - 1, 0))
    last = AffineDimExpr(len(extents))
    dims: list[AffineExpr] = [AffineDimExpr(place) for place in range(len(extents))]
    dims[dim] = dims[dim] * group + last
    total = 0
    for place, expr in enumerate(exprs):
        value = linear_sum(substitute(expr, dims), ranges)
        step = value.coefficient(last.position)
        used = any(
            _uses(atom, last.position) for atom, _ in value.terms if atom != Dim(last.position)
        )
        if used:
            return None
        total += step * prod(shape[place + 1 :])
    return total


def _uses(atom: Atom, position: int) -> bool:
    match atom:
        case Dim():
            return atom.position == position
        case FloorDiv() | Mod():
            return any(_uses(inner, position) for inner, _ in atom.operand.terms)
