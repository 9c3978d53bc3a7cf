"""Runs Python's garbage collector less often while many long-lived objects are created.

It is not disabled, as other threads of the user's program may produce garbage.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

_SELDOM = 10_000_000
"""Collection threshold of the youngest generation; Python's default is several hundred.

Few compiles create more objects.
"""


class _Thresholds:
    """The collector's thresholds, raised while any context is active."""

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
            # A threshold of 0 disables the collector.
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
    """Collect garbage rarely within the context: IR is large and has few dead cycles.

    The thresholds are restored when the last active context exits, unless the program has changed
    them.
    """
    _thresholds.enter()
    try:
        yield
    finally:
        _thresholds.leave()
