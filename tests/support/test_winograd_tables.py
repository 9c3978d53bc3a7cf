"""The matrices of minimal filtering are exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcopt.dialects.graph.packed.winograd_tiles import exact_division
from tcopt.support.arithmetic.winograd_tables import (
    growth,
    phase_tables,
    tables_of,
    tiles_of,
    whole_tables,
    winograd_tables,
)


def correlate(data, taps, tables):
    """Compute `AT [(G g) * (BT d)]` in rational arithmetic."""

    def times(matrix, vector):
        return [
            sum((Fraction(m) * v for m, v in zip(row, vector, strict=True)), Fraction(0))
            for row in matrix
        ]

    products = [
        g * d for g, d in zip(times(tables.weight, taps), times(tables.input, data), strict=True)
    ]
    return times(tables.output, products)


@given(
    st.lists(st.fractions(-4, 4, max_denominator=8), min_size=5, max_size=5, unique=True),
    st.lists(st.integers(-9, 9), min_size=6, max_size=6),
    st.lists(st.integers(-9, 9), min_size=3, max_size=3),
)
def test_any_points_filter_exactly(points, data, taps):
    # Entries are rounded to doubles, which is exact for fractions over small powers of two.
    binary = [Fraction(round(point * 8), 8) for point in points]
    if len(set(binary)) < len(binary):
        return
    result = correlate(data, taps, tables_of(binary, 4, 3))
    expected = [sum(data[i + k] * taps[k] for k in range(3)) for i in range(4)]
    assert [float(r) for r in result] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("taps", [2, 3, 4, 5, 7])
def test_chosen_points_filter(taps):
    assert tiles_of(taps)
    for tile in tiles_of(taps):
        tables = winograd_tables(tile, taps)
        assert (tables.extent, tables.reach) == (tile + taps - 1,) * 2
        data, filter = [3, -1, 4, 1, -5, 9, 2, -6][: tables.reach], [2, 7, -1, -8, 2, 8, 1][:taps]
        expected = [sum(data[i + k] * filter[k] for k in range(taps)) for i in range(tile)]
        result = correlate(data, filter, tables)
        assert [float(r) for r in result] == pytest.approx(expected, abs=1e-10)


def test_three_taps_have_the_usual_tiles():
    assert tiles_of(3) == [2, 4, 6]


@pytest.mark.parametrize(("phases", "start"), [(2, 0), (2, 1), (3, 2)])
def test_each_phase_of_a_transposed_filter_has_taps_of_its_own(phases, start):
    tile, taps = 3, 2
    tables = phase_tables(tile, taps, phases, start)
    assert tables.extent == phases * (tile + taps - 1)
    data, filters = [3, -1, 4, 1, -5, 9][: tables.reach], [2, 7, -1, -8, 2, 8][: phases * taps]
    expected = [
        sum(data[q + (j + start) // phases + k] * filters[j * taps + k] for k in range(taps))
        for q in range(tile)
        for j in range(phases)
    ]
    result = correlate(data, filters, tables)
    assert [float(r) for r in result] == pytest.approx(expected, abs=1e-10)


def test_points_are_distinct_and_as_many_as_needed():
    with pytest.raises(ValueError, match="needs 3 distinct points"):
        tables_of([Fraction(0), Fraction(1), Fraction(1)], 2, 3)


@pytest.mark.parametrize("taps", [2, 3, 4, 5])
def test_tables_of_integers_give_a_multiple(taps):
    assert tiles_of(taps, whole=True)
    for tile in tiles_of(taps, whole=True):
        tables = whole_tables(tile, taps)
        entries = [
            v for matrix in (tables.input, tables.weight, tables.output) for r in matrix for v in r
        ]
        assert all(entry.is_integer() for entry in entries)
        data, filter = [3, -1, 4, 1, -5, 9][: tables.reach], [2, 7, -1, -8, 2][:taps]
        sums = [sum(data[i + k] * filter[k] for k in range(taps)) for i in range(tile)]
        assert correlate(data, filter, tables) == [tables.scale * each for each in sums]


def test_the_usual_tile_of_integers_takes_16_bits_of_bytes():
    tables = whole_tables(4)
    assert (tables.scale, growth(tables.input), growth(tables.weight)) == (24, 10, 7)
    # For differences of bytes, and 8-bit weights.
    assert growth(tables.input) ** 2 * 255 < 1 << 15
    assert growth(tables.weight) ** 2 * 128 < 1 << 15


def test_a_division_of_a_multiple_is_a_product_and_a_shift():
    for divisor in (4, 36, 576):
        inverse, shift = exact_division(divisor)
        for number in (0, 1, -1, 12345, -98765, (1 << 31 - shift) - 1, -(1 << 31 - shift)):
            wrapped = np.array(number * divisor, np.int64).astype(np.int32)
            product = (wrapped.astype(np.int64) * inverse).astype(np.int32)
            assert product >> shift == number
