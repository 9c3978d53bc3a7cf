"""The matrices of minimal filtering, exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcopt.support.winograd_tables import phase_tables, tables_of, tiles_of, winograd_tables


def correlate(data, taps, tables):
    """`AT [(G g) * (BT d)]` in rational arithmetic."""

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
    # Entries are rounded to doubles, which fractions over small powers of two survive.
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
    with pytest.raises(ValueError, match="takes 3 distinct points"):
        tables_of([Fraction(0), Fraction(1), Fraction(1)], 2, 3)
