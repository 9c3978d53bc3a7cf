"""Interval arithmetic, compared with all values of small intervals."""

from itertools import combinations_with_replacement, product

import pytest

from tcopt.support.arithmetic.intervals import (
    difference,
    multipliers,
    quotient,
    remainder,
    weighted_sum,
)

INTERVALS = list(combinations_with_replacement(range(-4, 5), 2))
FACTORS = [-3, -2, -1, 1, 2, 3]


def values(interval):
    return range(interval[0], interval[1] + 1)


@pytest.mark.parametrize("factor", FACTORS)
def test_bounds_are_exact(factor):
    for a, b in product(INTERVALS, INTERVALS[::7]):
        sums = [7 + factor * x - 2 * y for x, y in product(values(a), values(b))]
        assert weighted_sum(7, [(factor, a), (-2, b)]) == (min(sums), max(sums))
        gaps = [x - y for x, y in product(values(a), values(b))]
        assert difference(a, b) == (min(gaps), max(gaps))


@pytest.mark.parametrize("factor", FACTORS)
def test_multipliers(factor):
    for a in INTERVALS:
        wanted = [n for n in range(-9, 10) if factor * n in values(a)]
        assert list(values(multipliers(factor, a))) == wanted


@pytest.mark.parametrize("divisor", [1, 2, 3, 5])
def test_division(divisor):
    for a in INTERVALS:
        quotients = [x // divisor for x in values(a)]
        assert quotient(a, divisor) == (min(quotients), max(quotients))
        low, high = remainder(a, divisor)
        assert all(low <= x % divisor <= high for x in values(a))
        if len(set(quotients)) == 1:
            assert (low, high) == (a[0] % divisor, a[1] % divisor)
