"""Display of a running tuning session: a table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from tcopt.tools.command_line.terminal import bare
from tcopt.tuner.session import SessionState, TaskState

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

ROWS = 12
"""Number of tasks in the table, those that take most of a run."""

_EVERY_S = 15.0
"""Seconds between lines if there is no terminal."""


class LiveTable:
    """Session callback that shows progress, used as a context manager.

    Args:
        stream: output stream, standard error by default.
    """

    def __init__(self, stream: TextIO | None = None):
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._live: Live | None = None
        self._last = 0.0

    def __enter__(self) -> LiveTable:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, state: SessionState) -> None:
        """Display the state of a session after a round."""
        if self._is_terminal:
            self._draw(state)
        elif state.seconds - self._last >= _EVERY_S or not self._last:
            self._last = state.seconds
            print(headline(state), file=self._stream, flush=True)

    def _draw(self, state: SessionState) -> None:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=bare(self._stream))
            self._live = Live(console=console, auto_refresh=False)
            self._live.start()
        self._live.update(table(state), refresh=True)


def headline(state: SessionState) -> str:
    """Return time, trials, current speedup and forecast as a line."""
    rate = state.trials / state.seconds if state.seconds else 0.0
    parts = [
        f"{clock(state.seconds)} of {clock(state.limit)}",
        f"{state.trials} trials, {rate:.1f}/s",
        f"kernels {state.speed:.3f}x",
    ]
    if state.expectation is not None:
        found = state.expectation
        parts.append(f"expected {found.middle:.3f}x ({found.low:.3f}-{found.high:.3f}) at the end")
    return "  ".join(parts)


def table(state: SessionState) -> RenderableType:
    """Return the headline and a table of the tasks."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, pad_edge=False)
    for title, justify in (
        ("kernel", "left"),
        ("share", "right"),
        ("trials", "right"),
        ("default", "right"),
        ("best", "right"),
        ("gain", "right"),
        ("rule", "left"),
        ("failed", "left"),
    ):
        found.add_column(title, justify="right" if justify == "right" else "left", no_wrap=True)
    total = sum(task.before_ns * task.task.calls for task in state.tasks) or 1.0
    order = sorted(range(len(state.tasks)), key=lambda n: -_weight(state.tasks[n]))
    for number in order[:ROWS]:
        cells = _cells(state.tasks[number], total)
        style = "bold" if number == state.current else ""
        found.add_row(*(Text(cell) for cell in cells), style=style)
    return Group(Text(headline(state)), found)


def _weight(state: TaskState) -> float:
    return state.before_ns * state.task.calls


def _cells(state: TaskState, total: float) -> tuple[str, ...]:
    failed = ", ".join(f"{count} {status}" for status, count in sorted(state.failures.items()))
    rule = state.best.rule if state.best is not None and state.ns < state.before_ns else ""
    return (
        state.task.name[:40],
        f"{100 * _weight(state) / total:.1f} %",
        str(state.trials),
        microseconds(state.before_ns),
        microseconds(state.ns),
        f"{state.before_ns / state.ns:.2f}x" if state.ns else "",
        rule,
        failed,
    )


def microseconds(ns: float) -> str:
    """Format the time of a kernel."""
    return f"{ns / 1e3:.1f} us" if ns < 1e6 else f"{ns / 1e6:.2f} ms"


def clock(seconds: float) -> str:
    """Format a time as minutes and seconds."""
    whole = max(round(seconds), 0)
    return f"{whole // 60}:{whole % 60:02}"
