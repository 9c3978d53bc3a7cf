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

_POINTS = {
    3: ("0", "1"),
    4: ("0", "1", "-1"),
    6: ("0", "3/4", "-3/4", "3/2", "-3/2"),
    8: ("0", "1/2", "-1/2", "1", "-1", "3/2", "-3/2"),
}
"""Finite points by products of a tile, `t = m + r - 1`. They are exact in binary, as are the
products that the matrices hold, and near enough to 1 that the powers neither grow nor vanish:
for F(4, 3) the error is a quarter of that of the usual 1 and 2."""


@dataclass(frozen=True)
class Tables:
    """The matrices of an algorithm: `input` BT [t, d], `weight` G [t, r], `output` AT [m, t].

    It makes `m` results by `t` products, from `d` inputs and `r` taps.
    """

    input: Matrix
    weight: Matrix
    output: Matrix

    @property
    def extent(self) -> int:
        """Products of a tile, `t`."""
        return len(self.input)

    @property
    def reach(self) -> int:
        """Inputs of a tile, `d`."""
        return len(self.input[0])


def tiles_of(taps: int) -> list[int]:
    """The output tiles `m` that there are points for, for a filter of `taps` taps."""
    return [extent - taps + 1 for extent in _POINTS if extent > taps]


TILES = sorted({tile for taps in range(2, max(_POINTS)) for tile in tiles_of(taps)})
"""All output tiles, of whatever filters."""


@cache
def winograd_tables(tile: int, taps: int = 3) -> Tables:
    """The matrices of F(tile, taps); KeyError unless `tile` is one of `tiles_of(taps)`."""
    points = [Fraction(point) for point in _POINTS[tile + taps - 1]]
    return tables_of(points, tile, taps)


@cache
def phase_tables(tile: int, taps: int, phases: int, start: int = 0) -> Tables:
    """The matrices of a transposed filter: F(tile, taps) for each phase of the results.

    Result `q * phases + j` is one of phase j, a correlation by `taps` taps of its own that begins
    at input `q + (j + start) // phases`. Taps and products are numbered phase by phase.
    """
    single = winograd_tables(tile, taps)
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
    return Tables(tuple(input_rows), tuple(weight), tuple(output))


def _among(row: Sequence[float], start: int, count: int) -> tuple[float, ...]:
    """A row of `count` entries, zeros but for those of `row`, which begin at `start`."""
    return (*[0.0] * start, *row, *[0.0] * (count - start - len(row)))


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
