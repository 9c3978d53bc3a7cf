"""Progress reports and times of the steps of a compile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]
"""Callback that receives a step's name, the number of steps done, and their total."""

STEPS = ("import", "graph", "te", "kernels", "host")
"""Steps of a compile.

`kernels` runs the phases from `loop` to `code` for each kernel, `host` for the host function.
"""

LOAD = "load"
"""The only step of a compile whose program is cached."""


class Report:
    """Reports the progress of a compile and records the time of each step."""

    def __init__(self, progress: Progress | None):
        self.seconds: dict[str, float] = {}
        self._progress = progress

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Report and time a step."""
        self._tell(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start

    def took(self, name: str, start: float) -> None:
        """Report and time a step that began at `start` and is now done.

        This is for a first step that shows whether a compile is needed.
        """
        self.seconds[name] = time.perf_counter() - start
        self._tell(name)

    def done(self) -> None:
        """Report that the compile is done."""
        if self._progress is not None:
            self._progress("done", len(STEPS), len(STEPS))

    def found(self, seconds: float) -> dict[str, float]:
        """Report that the program was loaded from the cache; return the times of the steps."""
        if self._progress is not None:
            self._progress(LOAD, 0, 1)
            self._progress("done", 1, 1)
        return {LOAD: seconds}

    def _tell(self, name: str) -> None:
        if self._progress is not None:
            self._progress(name, STEPS.index(name), len(STEPS))
