"""Fraction of a machine's limits that kernels reach: the peak of multiply-adds, or of copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Protocol

from rich.table import Table

from tcopt.backends.llvm.limits import copy_gbps, peak_gflops
from tcopt.tools.command_line.text_tables import render
from tcopt.tuner.tasks import Task

WEAK, STRONG = 0.75, 0.85
"""Fractions of a limit: kernels below the first untuned should reach the second tuned."""


class Tuned(Protocol):
    """A tuned kernel: nanoseconds by default, speed-up found, and the fractions of limits
    reached."""

    @property
    def case(self) -> str: ...
    @property
    def confirmed(self) -> float: ...
    @property
    def default_ns(self) -> float: ...
    @property
    def before(self) -> float: ...
    @property
    def after(self) -> float: ...


def limits_of(task: Task, run: Tuned, threads: int) -> dict[str, float]:
    """Return the fractions of the limits before and after tuning; Winograd may exceed one, as it
    computes less."""
    if not run.default_ns:
        return {}
    size = 1 << max(task.bytes - 1, 1 << 12).bit_length()
    limit = max(task.work / _peak(threads), task.bytes / 2 / _bandwidth(size, threads))
    before = limit / run.default_ns
    return {"before": before, "after": before * run.confirmed}


def shares_table(runs: Sequence[Tuned]) -> str:
    """Print each kernel's fractions before and after, and how many weak ones became strong."""
    table = Table(box=None)
    for title in ("case", "default us", "of the limit", "tuned", "of the limit"):
        table.add_column(title, justify="left" if title == "case" else "right")
    for run in runs:
        us, speed = f"{run.default_ns / 1e3:.1f}", f"{run.confirmed:.3f}x"
        table.add_row(run.case, us, f"{100 * run.before:.0f} %", speed, f"{100 * run.after:.0f} %")
    weak = [run for run in runs if run.before < WEAK]
    strong = [run.case for run in weak if run.after > STRONG]
    below = [run.case for run in runs if run.confirmed < 1]
    return "\n".join(
        [
            render(table),
            f"below {100 * WEAK:.0f} % of their limit untuned: {len(weak)}; of these above "
            f"{100 * STRONG:.0f} % tuned: {', '.join(strong) or 'none'}",
            f"slower than untuned: {', '.join(below) or 'none'}",
        ]
    )


@cache
def _peak(threads: int) -> float:
    return peak_gflops(threads)


@cache
def _bandwidth(size: int, threads: int) -> float:
    return copy_gbps(size, threads)
