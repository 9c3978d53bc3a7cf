"""Comparison of results."""

from __future__ import annotations

import numpy as np
import pytest

from tcopt.support.data.differences import compare, report


def measure(actual: list[float], expected: list[float], rtol: float = 1e-3, atol: float = 0.0):
    return compare("y", np.array(actual), np.array(expected), rtol=rtol, atol=atol)


def test_worst_element_and_least_tolerance() -> None:
    """The error of 0.1 over a range of 10 needs rtol 0.01."""
    result = measure([0.0, 5.1, 10.0], [0.0, 5.0, 10.0])
    assert result.worst == (1,)
    assert result.max_abs == pytest.approx(0.1)
    assert result.least_rtol == pytest.approx(0.01)
    assert not result.passed
    assert measure([0.0, 5.1, 10.0], [0.0, 5.0, 10.0], rtol=0.0101).passed


def test_elements_near_zero_need_no_special_tolerance() -> None:
    """A relative error of 100 % in a tiny element is acceptable next to large ones."""
    result = measure([0.002, 100.0], [0.001, 100.0])
    assert result.passed
    assert result.max_rel == pytest.approx(1.0)


def test_not_a_number_only_equals_itself() -> None:
    assert measure([np.nan, np.inf, 1.0], [np.nan, np.inf, 1.0]).passed
    assert not measure([np.nan, 1.0], [0.0, 1.0]).passed
    assert not measure([np.inf, 1.0], [-np.inf, 1.0]).passed


def test_constant_results_are_scaled_by_their_size() -> None:
    assert measure([100.01, 100.01], [100.0, 100.0]).passed
    assert not measure([101.0], [100.0]).passed


def test_empty_results_and_other_types() -> None:
    assert measure([], []).passed
    flags = np.array([True, False])
    assert compare("y", flags, flags, rtol=0, atol=0).passed
    assert not compare("y", flags, ~flags, rtol=0, atol=0).passed


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"shape \(2,\) where \(3,\) was expected"):
        measure([0.0, 1.0], [0.0, 1.0, 2.0])


def test_report_reads_well() -> None:
    text = report([measure([0.0, 5.1, 10.0], [0.0, 5.0, 10.0])], rtol=1e-3, atol=0.0)
    assert text.splitlines() == [
        "y (3): DIFFERS",
        "  absolute error: max 0.1, mean 0.0333, p99 0",
        "  relative error: max 0.02, mean 0.01, p99 0",
        "  error relative to the range: max 0.01, mean 0.00333, p99 0",
        "  max difference 0.1 at [1]: 5.1 where 5 was expected",
        "  range of the expected values 10; passes from rtol 0.01 (given rtol 0.001, atol 0)",
    ]
