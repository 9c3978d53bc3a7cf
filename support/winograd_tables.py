"""The constant matrices of Winograd's minimal filtering, F(m, r), from interpolation points.

    y = AT [(G g) * (BT d)]

gives `m` outputs of a correlation of `t = m + r - 1` inputs `d` with a filter `g` of `r` taps,
by `t` products instead of `m r`. It is the transposed Toom-Cook product: filter and result are
taken at `t - 1` points and at infinity. Any distinct points give a correct algorithm; how far
apart the magnitudes in the matrices lie decides the rounding error.

Sources: S. Winograd, Arithmetic Complexity of Computations (1980); A. Lavin and S. Gray, Fast
Algorithms for Convolutional Neural Networks (2015); B. Barabasz et al., Error Analysis and
Improving the Accuracy of Winograd Convolution for Deep Neural Networks (2020), for the choice
of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

Matrix = tuple[tuple[float, ...], ...]

_HALVES = {
    2: (Fraction(1),),
    4: (Fraction(3, 4), Fraction(3, 2)),
    6: (Fraction(1, 2), Fraction(1), Fraction(3, 2)),
}
"""Positive points by output tile, for filters of three taps; their negatives and 0 belong to
them. They are exact in binary, as are the products that the matrices hold, and near enough
to 1 that the powers neither grow nor vanish: for F(4, 3) the error is a quarter of that of
the usual 1 and 2."""

TILES = tuple(_HALVES)
"""Output tiles `m` that there are points for."""

TAPS = 3
"""Filter taps `r` that the points are for."""


@dataclass(frozen=True)
class Tables:
    """The matrices of F(m, r): `input` BT [t, t], `weight` G [t, r], `output` AT [m, t]."""

    input: Matrix
    weight: Matrix
    output: Matrix

    @property
    def extent(self) -> int:
        """Inputs of a tile, `t`."""
        return len(self.input)


@cache
def winograd_tables(tile: int) -> Tables:
    """The matrices of F(tile, 3); KeyError unless `tile` is one of `TILES`."""
    positive = _HALVES[tile]
    points = (Fraction(0), *(sign * point for point in positive for sign in (1, -1)))
    return tables_of(points, tile, TAPS)


def tables_of(points: Sequence[Fraction], tile: int, taps: int) -> Tables:
    """The matrices of F(tile, taps) for `tile + taps - 2` distinct points and infinity."""
    if len(set(points)) != tile + taps - 2:
        raise ValueError(f"F({tile}, {taps}) takes {tile + taps - 2} distinct points")
    rows: list[list[Fraction]] = []
    weight: list[list[Fraction]] = []
    for point in points:
        others = [other for other in points if other != point]
        norm = Fraction(1)
        for other in others:
            norm *= point - other
        rows.append([*_polynomial(others), Fraction(0)])
        weight.append([point**power / norm for power in range(taps)])
    rows.append(_polynomial(points))
    weight.append([Fraction(int(power == taps - 1)) for power in range(taps)])
    output = [
        [*(point**power for point in points), Fraction(int(power == tile - 1))]
        for power in range(tile)
    ]
    return Tables(_floats(rows), _floats(weight), _floats(output))


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients of the monic polynomial with these roots, constant first."""
    result = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *result]
        result = [a - root * b for a, b in zip(shifted, [*result, Fraction(0)], strict=True)]
    return result


def _floats(matrix: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(tuple(float(entry) for entry in row) for row in matrix)
