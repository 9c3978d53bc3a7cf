"""Python's garbage collector, which looks less often while much is made and little is garbage.

It stays on, as the program is not ours: other threads may make garbage meanwhile.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

_SELDOM = 10_000_000
"""New objects until the young ones are looked at, where Python's default is some hundred. Few
compiles make so many; who makes more has some of them collected."""


class _Thresholds:
    """The collector's, raised while anybody is inside."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = self._raised = gc.get_threshold()

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            self._before = self._raised = gc.get_threshold()
            # 0 is off.
            if 0 < self._before[0] < _SELDOM:
                self._raised = (_SELDOM, *self._before[1:])
                gc.set_threshold(*self._raised)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and gc.get_threshold() == self._raised:
                gc.set_threshold(*self._before)


_thresholds = _Thresholds()


@contextmanager
def quiet_collector() -> Generator[None]:
    """Few garbage collections inside: IR and modules are large, and little of it dies in cycles.

    Thresholds are what they were when the last of those inside has left, unless the program has set
    others meanwhile.
    """
    _thresholds.enter()
    try:
        yield
    finally:
        _thresholds.leave()
