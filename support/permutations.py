"""Index maps that are permutations: each point of one box is read from its own point of another.

An index such as `d0 * 64 + d1` is a number in mixed radix. Its digits are axes, or parts of
one: `d0 floordiv 8` and `d0 mod 8` are the two digits of `d0`. A map is a permutation where
every index has all its digits in order, and every axis all of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Digit:
    """`(axis floordiv lower) mod extent`."""

    axis: int
    lower: int
    extent: int


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
    parts: dict[int, list[tuple[_Digit, AffineExpr]]] = {}
    for place, expr in enumerate(indices):
        digits = _digits(linear_sum(expr, ranges), extents)
        if digits is None or prod(digit.extent for digit in digits) != source[place]:
            return None
        below = 1
        for digit in digits:
            value = AffineDimExpr(place) // below % digit.extent
            parts.setdefault(digit.axis, []).append((digit, value))
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


def _digits(total: LinearSum, extents: Sequence[int]) -> list[_Digit] | None:
    """The digits of an index, the lowest first; None if it is not a number in mixed radix."""
    found: list[_Digit] = []
    below = 1
    for atom, factor in sorted(total.terms, key=lambda term: term[1]):
        digit = _digit(atom, extents)
        if digit is None or factor != below:
            return None
        found.append(digit)
        below *= digit.extent
    return None if total.constant else found


def _digit(atom: Atom, extents: Sequence[int]) -> _Digit | None:
    match atom:
        case Dim():
            return _Digit(atom.position, 1, extents[atom.position])
        case FloorDiv(LinearSum(terms=((inner, 1),), constant=0), size):
            digit = _digit(inner, extents)
            if digit is None or digit.extent % size:
                return None
            return _Digit(digit.axis, digit.lower * size, digit.extent // size)
        case Mod(LinearSum(terms=((inner, 1),), constant=0), size):
            digit = _digit(inner, extents)
            if digit is None or digit.extent % size:
                return None
            return _Digit(digit.axis, digit.lower, size)
        case _:
            return None


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
