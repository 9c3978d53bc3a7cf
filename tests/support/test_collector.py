"""The garbage collector is paused during a compile, and its state is restored."""

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import onnx.parser
import pytest

import tcopt
from tcopt.support.processes import collector
from tcopt.support.processes.collector import quiet_collector


class _Node:
    """An object in a reference cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    """Enable the collector with Python's default thresholds, and restore its state at the end."""
    was, before = gc.isenabled(), gc.get_threshold()
    gc.enable()
    gc.set_threshold(700, 10, 10)
    yield
    assert gc.isenabled()
    gc.set_threshold(*before)
    (gc.enable if was else gc.disable)()


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_nothing_is_collected_inside() -> None:
    with quiet_collector():
        before = _collections()
        _ = [[] for _ in range(100_000)]
        assert _collections() == before
        assert gc.isenabled()
    assert gc.get_threshold() == (700, 10, 10)
    _ = [[] for _ in range(1_000)]
    assert _collections() > before


def test_the_collector_stays_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that creates much garbage inside is still collected."""
    monkeypatch.setattr(collector, "_SELDOM", 20_000)
    with quiet_collector():
        node = _Node()
        left = weakref.ref(node)
        del node
        _ = [[] for _ in range(30_000)]
        assert left() is None


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with quiet_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_a_program_sets_inside_stays() -> None:
    with quiet_collector():
        gc.set_threshold(123, 4, 5)
    assert gc.get_threshold() == (123, 4, 5)
    gc.set_threshold(0, 10, 10)
    with quiet_collector():
        assert gc.get_threshold() == (0, 10, 10)
    assert gc.get_threshold() == (0, 10, 10)


def test_the_last_of_several_threads_leaves_it_as_it_was() -> None:
    barrier = Barrier(4, timeout=60)

    def work(number: int) -> None:
        with quiet_collector():
            barrier.wait()
            if number % 2:
                with quiet_collector():
                    pass
            assert gc.get_threshold()[0] > 700
            barrier.wait()

    with ThreadPoolExecutor(4) as executor:
        list(executor.map(work, range(4)))
    assert gc.get_threshold() == (700, 10, 10)


def test_a_compile_leaves_the_collector_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector is neither disabled nor frozen, and no collection is requested."""
    for name in ("disable", "freeze", "unfreeze", "collect"):
        monkeypatch.setattr(gc, name, None)
    frozen = gc.get_freeze_count()
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
net (float[4] x) => (float[4] y) { y = Neg(x) }""")
    tcopt.compile(model, cache=False, workers=0)
    monkeypatch.undo()
    # Frozen objects that die are counted no more.
    assert gc.isenabled() and gc.get_freeze_count() <= frozen
    assert gc.get_threshold() == (700, 10, 10)
