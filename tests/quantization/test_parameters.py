"""Scales and zero points, and ranges from calibration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcopt.quantization.parameters import Integer, bias_integers, parameters_for
from tcopt.quantization.ranges import (
    METHODS,
    Distribution,
    RangeSettings,
    chosen_range,
    merged,
    squared_error,
)

_REAL = st.floats(-1e6, 1e6, width=32)


@given(
    _REAL, _REAL, st.sampled_from(Integer), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1)
)
def test_values_in_the_range_come_back_within_half_a_step(
    a: float, b: float, integer: Integer, symmetric: bool, power: bool, seed: int
) -> None:
    low, high = min(a, b), max(a, b)
    made = parameters_for(low, high, integer, symmetric=symmetric, power_of_two=power)
    low, high = min(low, 0.0), max(high, 0.0)
    x = np.random.default_rng(seed).uniform(low, high, 50).astype(np.float32)
    scale = float(made.scale)
    # The ends of the range are rounded to the zero point's step, so they are up to half a step
    # outside; 1e-5 is for rounded f32 quotients.
    inside = (x > low + 0.5 * scale) & (x < high - 0.5 * scale)
    error = np.abs(made.rounded(x) - x)
    assert (error[inside] <= scale * (0.5 + 1e-5)).all()
    assert (error <= scale * (1.0 + 1e-5)).all()
    assert made.rounded(np.zeros(1, np.float32))[0] == 0
    if power:
        assert np.log2(scale) == np.rint(np.log2(scale))
    if symmetric:
        assert int(made.zero) == (0 if integer is Integer.INT8 else 128)


@given(_REAL, _REAL)
def test_dequantized_integers_are_fixed(a: float, b: float) -> None:
    made = parameters_for(min(a, b), max(a, b), Integer.UINT8)
    integers = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(made.quantize(made.dequantize(integers)), integers)


@pytest.mark.parametrize("ends", [(0.0, 0.0), (3.0, 3.0), (-1e-42, 1e-42), (-3e38, 3e38)])
def test_ranges_without_extent_or_end_have_a_scale(ends: tuple[float, float]) -> None:
    made = parameters_for(*ends, Integer.UINT8)
    assert np.isfinite(made.scale) and made.scale > 0
    x = np.array(ends, np.float32)
    assert np.abs(made.rounded(x) - x).max() <= max(float(made.scale), 1e-30)


def test_a_channel_has_its_own_scale() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 9)).astype(np.float32) * np.array([[1e-3], [1], [0], [1e3]])
    made = parameters_for(x.min(axis=1), x.max(axis=1), Integer.INT8, symmetric=True, axis=0)
    error = np.abs(made.rounded(x.astype(np.float32)) - x)
    assert (error <= made.scale[:, None] * 0.50001).all()
    assert made.scale[2] == 1


def test_a_bias_that_32_bits_do_not_hold_is_none() -> None:
    assert bias_integers(np.array([1.0]), np.array([1e-12])) is None
    found = bias_integers(np.array([1.0, -0.3]), np.array([0.25]))
    np.testing.assert_array_equal(found, [4, -1])


def _distribution(values: np.ndarray, bins: int = 4096) -> Distribution:
    counts, _ = np.histogram(values, bins)
    return Distribution(float(values.min()), float(values.max()), counts.astype(np.float64))


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_method_gives_a_range_within_the_values(method: str, symmetric: bool) -> None:
    rng = np.random.default_rng(1)
    values = _distribution(np.append(rng.standard_normal(20000), 40.0))
    settings = RangeSettings(symmetric=symmetric, percentile=99.0)
    low, high = chosen_range(method, values, settings)
    assert low < 0 < high
    # A symmetric range extends to the larger side; the other side may have no values.
    assert high <= values.high * 1.001 and low >= -values.high * 1.001
    # All methods but the plain one clip the outlier.
    assert (high > 39) == (method == "minmax")


def test_least_squares_is_not_worse_than_all_of_the_range() -> None:
    rng = np.random.default_rng(2)
    for tail in (1.0, 6.0, 100.0):
        values = _distribution(np.append(rng.standard_normal(5000), tail))
        settings = RangeSettings()
        found = chosen_range("mse", values, settings)
        whole = squared_error(values, values.low, values.high, settings)
        assert squared_error(values, *found, settings) <= whole


def test_percentile_keeps_its_part() -> None:
    values = _distribution(np.random.default_rng(3).uniform(0, 10, 50000))
    low, high = chosen_range("percentile", values, RangeSettings(percentile=90.0))
    assert low == pytest.approx(0, abs=0.01) and high == pytest.approx(9.0, abs=0.05)


_SPAN = st.just(0.0) | st.floats(2**-10, 1e3, width=32)
"""Spans of values: zero, or wide enough for numpy to divide them into 64 bins."""


@given(st.lists(st.tuples(_REAL, _SPAN), min_size=1, max_size=5))
def test_merged_distributions_lose_no_value(parts: list[tuple[float, float]]) -> None:
    rng = np.random.default_rng(0)
    given = [_distribution(low + span * rng.random(100), 64) for low, span in parts]
    both = merged(given, 128)
    assert both.counts.sum() == 100 * len(given)
    assert both.low == min(d.low for d in given) and both.high == max(d.high for d in given)
