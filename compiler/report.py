"""The steps of a compile, told while it runs, and their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]
"""Called with a step's name, how many steps are done, and how many there are."""

STEPS = ("import", "graph", "te", "kernels", "host")
"""What a compile goes through. Kernels take the pipeline's phases from `loop` to `code` one by
one in the step `kernels`, the host program in `host`."""

LOAD = "load"
"""The only step of a compile that finds its program in the cache."""


class Report:
    """Tells the progress of a compile, and keeps the time of each step."""

    def __init__(self, progress: Progress | None):
        self.seconds: dict[str, float] = {}
        self._progress = progress

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step. Only after the first it is known whether there is anything to compile."""
        first = name == STEPS[0]
        if not first:
            self._tell(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
        if first:
            self._tell(name)

    def done(self) -> None:
        """Tell the end."""
        if self._progress is not None:
            self._progress("done", len(STEPS), len(STEPS))

    def found(self, seconds: float) -> dict[str, float]:
        """Tell that a program was loaded, which is all there was to do; gives the times."""
        if self._progress is not None:
            self._progress(LOAD, 0, 1)
            self._progress("done", 1, 1)
        return {LOAD: seconds}

    def _tell(self, name: str) -> None:
        if self._progress is not None:
            self._progress(name, STEPS.index(name), len(STEPS))
