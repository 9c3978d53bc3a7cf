"""A sample of ONNX's cases with ranges for their dimensions; `make sizes` runs all of them."""

from __future__ import annotations

import pytest

from sizes.opening import check_case, opened, refusal, sized_cases
from sizes.run import refused_cases

_PART = 100
"""One case in this many is compiled."""

_REFUSED_PART = 24
"""One refused case in this many is imported."""


@pytest.mark.parametrize("name", [n for n in sized_cases() if n not in refused_cases()][50::_PART])
def test_case_serves_ranges(name: str) -> None:
    assert check_case(name) is None


_REFUSED = sorted(n for n, problem in refused_cases().items() if problem.startswith("refuses"))


@pytest.mark.parametrize("name", _REFUSED[::_REFUSED_PART])
def test_refusals_are_listed(name: str) -> None:
    found = opened(name)
    assert found is not None
    assert refusal(found) == refused_cases()[name]
