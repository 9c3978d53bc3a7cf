"""The garbage collector leaves a compile alone, and what a compile leaves is collected later."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from tcopt.support import collector
from tcopt.support.collector import quiet_collector


class _Node:
    """An object in a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An enabled collector, and nothing that was postponed before."""
    monkeypatch.setattr(collector, "_postponed", [])
    was = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_nothing_is_collected_inside() -> None:
    with quiet_collector():
        before = _collections()
        _ = [[] for _ in range(10_000)]
        assert _collections() == before
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    with quiet_collector():
        pass
    assert not gc.isenabled()


def test_many_objects_are_collected_when_it_is_entered_again() -> None:
    gc.collect()
    with quiet_collector():
        node = _Node()
        left = weakref.ref(node)
        kept = [[] for _ in range(250_000)]
        del node
    before = _collections()
    _ = [[] for _ in range(1_000)]
    assert _collections() > before  # A young one, which does not look at what was left.
    assert left() is not None
    with quiet_collector():
        assert left() is None
    assert len(kept) == 250_000
    with quiet_collector():
        node = _Node()
        left = weakref.ref(node)
        again = [[] for _ in range(250_000)]
        del node
    _ = [[] for _ in range(1_000)]
    assert left() is None  # Only the first time something waits.
    assert len(again) == 250_000


def test_what_the_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with quiet_collector():
            kept = [[] for _ in range(250_000)]
        assert gc.get_freeze_count() >= frozen - 1_000
        assert len(kept) == 250_000
    finally:
        gc.unfreeze()
