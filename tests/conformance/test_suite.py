"""A fixed part of ONNX's backend suite; `make conformance` runs all of it."""

from __future__ import annotations

import pytest

from conformance.cases import passing_cases, run_case, set_home

_PART = 6
"""One case of so many is run here, in an order that does not depend on their number."""


def _chosen() -> list[str]:
    return [name for name in passing_cases() if sum(name.encode()) % _PART == 0]


@pytest.fixture(autouse=True, scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory) -> None:
    set_home(tmp_path_factory.mktemp("onnx"))


@pytest.mark.parametrize("name", _chosen())
def test_case(name: str) -> None:
    assert run_case(name) is None
