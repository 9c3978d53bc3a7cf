"""Summary of measurements: ratios to the fastest peer, shares of the machine's limit, tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from tcopt.tools.benchmarking.measure import OURS
from tcopt.tools.command_line.text_tables import render

_MEMORY_BOUND = 4
"""Operations per byte below which a model counts as memory bound, on any machine."""


@dataclass(frozen=True)
class BenchOutcome:
    """The times of one model with one number of threads.

    Attributes:
        ours_ms: milliseconds of this compiler's code, the median or the minimum.
        peers_ms: the same of each peer.
        speed: speedup of this compiler's code over each peer.
        flops, bytes: operations of its contractions, and bytes that must move.
        peak_gflops, copy_gbps: the measured limits of the machine.
        relative_error: largest difference from the first peer, relative to the range.
    """

    threads: int
    ours_ms: float
    peers_ms: Mapping[str, float]
    speed: Mapping[str, float]
    flops: int
    bytes: int
    peak_gflops: float
    copy_gbps: float
    relative_error: float | None

    @property
    def best_peer(self) -> str | None:
        """Name of the fastest peer."""
        return min(self.speed, key=lambda name: self.speed[name], default=None)

    @property
    def ratio(self) -> float | None:
        """Speedup of this compiler's code over the fastest peer."""
        return min(self.speed.values(), default=None)

    @property
    def is_memory_bound(self) -> bool:
        """Whether memory bandwidth is the limiting resource."""
        return self.flops < _MEMORY_BOUND * self.bytes

    @property
    def share(self) -> float:
        """The achieved part of the measured peak or bandwidth; 1 is the limit."""
        if self.is_memory_bound:
            return self.bytes / self.ours_ms / 1e6 / self.copy_gbps
        return self.gflops / self.peak_gflops

    @property
    def gflops(self) -> float:
        """Billions of operations per second."""
        return self.flops / self.ours_ms / 1e6

    @property
    def gbps(self) -> float:
        """Billions of bytes per second."""
        return self.bytes / self.ours_ms / 1e6


def outcomes(report: Mapping[str, Any], *, least: bool = False) -> list[BenchOutcome]:
    """Return an outcome for each number of threads in a report of `measure`.

    Args:
        least: use minimum times instead of medians, for busy machines.
    """
    found: list[BenchOutcome] = []
    for run in report["runs"]:
        times = dict(run["least_ms" if least else "median_ms"])
        ours_ms = times.pop(OURS)
        speed = {n: ms / ours_ms for n, ms in times.items()} if least else run["speed"]
        errors = [output["relative"] for output in run["accuracy"]]
        found.append(
            BenchOutcome(
                run["threads"],
                ours_ms,
                times,
                speed,
                report["flops"],
                report["bytes"],
                run["peak_gflops"],
                run["copy_gbps"],
                max(errors) if errors else None,
            )
        )
    return found


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean; 1 if there are no values."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


def comparison_table(
    reports: Mapping[str, Mapping[str, Any]], peers: Sequence[str], *, least: bool = False
) -> str:
    """Return a table with a row for each model and number of threads; see `outcomes`."""
    table = Table(box=None, pad_edge=False)
    table.add_column("model")
    for heading in ("threads", "tcopt ms", *(f"{peer} ms" for peer in peers), "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("GFLOP/s", "GB/s", "of limit", "compile s", "workspace MB", "error"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, report in reports.items():
        for outcome in outcomes(report, least=least):
            table.add_row(*_row(name, report, outcome, peers))
    return render(table)


def _row(
    name: str, report: Mapping[str, Any], outcome: BenchOutcome, peers: Sequence[str]
) -> list[str]:
    times = [_number(outcome.peers_ms.get(peer), ".3f") for peer in peers]
    limit = "bandwidth" if outcome.is_memory_bound else "peak"
    return [
        name,
        str(outcome.threads),
        f"{outcome.ours_ms:.3f}",
        *times,
        _number(outcome.ratio, ".2f"),
        f"{outcome.gflops:.1f}",
        f"{outcome.gbps:.1f}",
        f"{outcome.share:.0%} {limit}",
        f"{report['compile_s'][OURS]:.1f}",
        f"{report['workspace_bytes'] / 1e6:.1f}",
        _number(outcome.relative_error, ".0e"),
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
