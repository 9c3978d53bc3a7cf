"""Matrices of Winograd's minimal filtering F(m, r), computed from interpolation points.

    y = AT [(G g) * (BT d)]

computes `m` outputs of a correlation of `t = m + r - 1` inputs `d` with a filter `g` of `r` taps by
`t` multiplications instead of `m r`. It is the transposed Toom-Cook algorithm, with filter and
result evaluated at `t - 1` points and at infinity. Any distinct points give a correct algorithm;
the ratio of magnitudes in the matrices determines the rounding error.

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
from math import lcm, prod

Matrix = tuple[tuple[float, ...], ...]

_POINTS = {
    3: ("0", "1"),
    4: ("0", "1", "-1"),
    6: ("0", "3/4", "-3/4", "3/2", "-3/2"),
    8: ("0", "1/2", "-1/2", "1", "-1", "3/2", "-3/2"),
}
"""Finite points by the number of products per tile, `t = m + r - 1`.

The points, and the products in the matrices, are exact in binary. They are close enough to 1 that
their powers neither grow nor vanish: for F(4, 3) the error is a quarter of that of the usual points
1 and 2.
"""

_WHOLE_POINTS = {3: (0, 1), 4: (0, 1, -1), 6: (0, 1, -1, 2, -2)}
"""Integer points. With additional points, transforms of bytes would exceed 16 bits."""


@dataclass(frozen=True)
class Tables:
    """Matrices of an algorithm: `input` BT [t, d], `weight` G [t, r], `output` AT [m, t].

    It computes `m` results by `t` products, from `d` inputs and `r` taps. The results are `scale`
    times those of the filter.
    """

    input: Matrix
    weight: Matrix
    output: Matrix
    scale: int = 1

    @property
    def extent(self) -> int:
        """Number of products per tile, `t`."""
        return len(self.input)

    @property
    def reach(self) -> int:
        """Number of inputs per tile, `d`."""
        return len(self.input[0])


def tiles_of(taps: int, whole: bool = False) -> list[int]:
    """Return the supported output tile sizes `m` for a filter of `taps` taps.

    Args:
        whole: whether the matrices must have integer elements.
    """
    extents = _WHOLE_POINTS if whole else _POINTS
    return [extent - taps + 1 for extent in extents if extent > taps]


TILES = sorted({tile for taps in range(2, max(_POINTS)) for tile in tiles_of(taps)})
"""Supported output tile sizes of all filters."""


@cache
def winograd_tables(tile: int, taps: int = 3) -> Tables:
    """Return the matrices of F(tile, taps); KeyError unless `tile` is in `tiles_of(taps)`."""
    points = [Fraction(point) for point in _POINTS[tile + taps - 1]]
    return tables_of(points, tile, taps)


@cache
def whole_tables(tile: int, taps: int = 3) -> Tables:
    """Return integer matrices of F(tile, taps), whose results are multiplied by `scale`.

    Rows of the filter's matrix have denominators: multiplied by their least common multiple, all
    elements are integers. The remaining factor of a row is applied to the row as long as this does
    not increase the filter's largest transform. Otherwise it is applied to the column of the output
    matrix, whose results have 32 bits. KeyError unless `tile` is in `tiles_of(taps, whole=True)`.
    """
    points = _WHOLE_POINTS[tile + taps - 1]
    rational = tables_of([Fraction(point) for point in points], tile, taps)
    norms = [prod(p - other for other in points if other != p) for p in points] + [1]
    powers = [[p**power for power in range(taps)] for p in points]
    powers.append([int(power == taps - 1) for power in range(taps)])
    scale, largest = lcm(*norms), max(_magnitude(row) for row in powers)
    weight: list[tuple[float, ...]] = []
    factors: list[int] = []
    for norm, row in zip(norms, powers, strict=True):
        left = scale // abs(norm)
        fits = (d for d in range(left, 0, -1) if left % d == 0)
        inside = next((d for d in fits if d * _magnitude(row) <= largest), 1)
        sign = 1 if norm > 0 else -1
        weight.append(tuple(float(sign * inside * entry) for entry in row))
        factors.append(left // inside)
    output = tuple(
        tuple(entry * factor for entry, factor in zip(row, factors, strict=True))
        for row in rational.output
    )
    return Tables(rational.input, tuple(weight), output, scale)


def _magnitude(row: Sequence[float]) -> float:
    return sum(abs(entry) for entry in row)


def growth(matrix: Matrix) -> int:
    """Return the maximum factor by which an integer matrix can increase magnitudes."""
    return int(max(_magnitude(row) for row in matrix))


@cache
def phase_tables(
    tile: int, taps: int, phases: int, start: int = 0, *, whole: bool = False
) -> Tables:
    """Return the matrices of a transposed filter: F(tile, taps) for each phase of the results.

    Result `q * phases + j` belongs to phase j, a correlation with `taps` separate taps that begins
    at input `q + (j + start) // phases`. Taps and products are ordered by phase. With `whole` the
    matrices have integer elements, see `whole_tables`.
    """
    single = (whole_tables if whole else winograd_tables)(tile, taps)
    if phases == 1:
        return single
    extent = single.extent
    reach = extent + (phases - 1 + start) // phases
    input_rows: list[tuple[float, ...]] = []
    weight: list[tuple[float, ...]] = []
    for phase in range(phases):
        later = (phase + start) // phases
        input_rows += [_among(row, later, reach) for row in single.input]
        weight += [_among(row, phase * taps, phases * taps) for row in single.weight]
    output = [
        _among(single.output[place], phase * extent, phases * extent)
        for place in range(tile)
        for phase in range(phases)
    ]
    return Tables(tuple(input_rows), tuple(weight), tuple(output), single.scale)


def _among(row: Sequence[float], start: int, count: int) -> tuple[float, ...]:
    """Return a row of `count` elements: zeros, and `row` from index `start` on."""
    return (*[0.0] * start, *row, *[0.0] * (count - start - len(row)))


def tables_of(points: Sequence[Fraction], tile: int, taps: int) -> Tables:
    """Return the matrices of F(tile, taps) for `tile + taps - 2` distinct points and infinity."""
    if len(set(points)) != tile + taps - 2:
        raise ValueError(f"F({tile}, {taps}) needs {tile + taps - 2} distinct points")
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
    """Return the coefficients of the monic polynomial with these roots, constant first."""
    result = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *result]
        result = [a - root * b for a, b in zip(shifted, [*result, Fraction(0)], strict=True)]
    return result


def _floats(matrix: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(tuple(float(entry) for entry in row) for row in matrix)
