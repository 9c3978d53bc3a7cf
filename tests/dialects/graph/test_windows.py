"""Closed-form counts of the taps that read data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcopt.dialects.graph.core.windows import Window, positions_inside
from tcopt.passes.graph.layout.skipped_taps import taps_seen

_SMALL = st.integers(1, 6)


@given(st.integers(-9, 9), _SMALL, _SMALL, _SMALL)
def test_positions_inside_are_those_that_index_the_data(first, step, count, extent):
    found = positions_inside(first, step, count, extent)
    assert list(found) == [i for i in range(count) if 0 <= first + i * step < extent]


@pytest.mark.parametrize(
    ("low", "stride", "dilation"), [(0, 1, 1), (1, 1, 1), (2, 2, 1), (6, 3, 3)]
)
def test_taps_seen_counts_pairs(low, stride, dilation):
    window = Window((3,), (stride,), (low,), (low,), (dilation,))
    pairs = [(i, k) for i in range(3) for k in range(3)]
    seen = sum(0 <= i * stride + k * dilation - low < 5 for i, k in pairs)
    assert taps_seen(window, (5,), (3,)) == [seen]


def test_taps_of_long_signals_are_not_enumerated():
    extent = 10**15
    window = Window((11,), (1,), (5,), (5,), (1,))
    assert taps_seen(window, (extent,), (extent,)) == [11 * extent - 2 * (1 + 2 + 3 + 4 + 5)]
