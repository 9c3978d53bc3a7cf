"""Progress of a compile: the time of each phase, and a progress bar on stderr if it takes long."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from tcopt.compiler.report import LOAD
from tcopt.tools.command_line.terminal import bare

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_SECONDS = 1.0


class CompileProgress:
    """The `progress` callback of `tcopt.compile`, used as a context manager.

    It is called with `(phase, done, total)` when a phase begins, and again for each step in it. The
    bar appears only on a terminal, and only after a second.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started = self._since = time.perf_counter()
        self._phase: str | None = None
        self._bar: Progress | None = None

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.perf_counter()
        if phase == LOAD:
            # Nothing was imported: the program is already loaded when this is reported.
            self._phase = phase
        self._account(now)
        self._phase = phase if done < total else None
        if now - self._started > _PATIENCE_SECONDS and sys.stderr.isatty():
            self._show(phase, done, total)

    def __enter__(self) -> CompileProgress:
        self._started = self._since = time.perf_counter()
        # The model is imported before the first call.
        self._phase = "import"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._account(time.perf_counter())
        self._phase = None
        if self._bar is not None:
            self._bar.stop()

    @property
    def total(self) -> float:
        """Total seconds of all phases."""
        return sum(self.seconds.values())

    def summary(self) -> str:
        """Return a text such as `8.21 s (import 0.52, graph 1.10, ...)`."""
        parts = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in self.seconds.items())
        return f"{self.total:.2f} s" + (f" ({parts})" if parts else "")

    def _account(self, now: float) -> None:
        if self._phase is not None:
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._since
        self._since = now

    def _show(self, phase: str, done: int, total: int) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(file=bare(sys.stderr)), transient=True)
            self._task = self._bar.add_task(phase, total=total)
            self._bar.start()
        self._bar.update(self._task, description=phase, completed=done, total=total)
