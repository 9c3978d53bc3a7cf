"""Index maps that are permutations: each point of one box is read from its own point of another.

An index such as `d0 * 64 + d1` is a number in mixed radix, see `digits`. A map is a permutation
where every index has all its digits in order, and every axis all of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from tcopt.support.affine import (
    Atom,
    Dim,
    FloorDiv,
    LinearSum,
    Mod,
    Range,
    extents_to_ranges,
    linear_sum,
    simplify,
    substitute,
)
from tcopt.support.digits import Digit, digit_of


def inverse_permutation(
    indices: Sequence[AffineExpr], extents: Sequence[int], source: Sequence[int]
) -> tuple[AffineExpr, ...] | None:
    """The point that each element goes to, from the one it is read at.

    Args:
        indices: the place read, in terms of the axes.
        extents: of the axes.
        source: extents of what is read.
    Returns:
        Each axis in terms of the indices; None if some element is not read exactly once.
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
    """Of an index the axes and their digits, the lowest first; None if it is not a number in
    mixed radix."""
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
    """How far apart neighbours along a dimension lie, where those of each group are evenly so.

    Args:
        exprs: the place of each point, in terms of the dimensions.
        extents: of the dimensions.
        dim: the dimension that is cut into groups.
        group: neighbours in a group.
        shape: the row-major extents that places are in.
    Returns:
        A number of elements; None if it varies inside of a group.
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
