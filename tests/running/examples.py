"""Number of random examples for each property."""

from __future__ import annotations

import pytest

_daily = [True]


def is_nightly(config: pytest.Config) -> bool:
    """Return whether tests marked `nightly` run, and properties with all their examples."""
    return config.getoption("nightly") or config.getoption("nightly_only")


def set_daily(daily: bool) -> None:
    """Select the examples before tests are imported."""
    _daily[0] = daily


def examples(count: int) -> int:
    """Return `count` in a nightly run; otherwise a third of it, at least 3."""
    return max(min(count, 3), count // 3) if _daily[0] else count
