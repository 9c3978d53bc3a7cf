"""Text of a profile: the slowest calls, with the ONNX nodes they compute."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from tcopt.runtime.profile import KernelTime, Profile
from tcopt.tools.command_line.text_tables import render

_NAMES_SHOWN = 3

SLOW = "(!)"
"""Mark of kernels estimated to be far slower than their target allows."""


def profile_text(profile: Profile, *, by_kernel: bool = False, rows: int = 30) -> str:
    """Return a table of the slowest calls, and a line about the whole run.

    Args:
        by_kernel: sum the calls of each kernel.
        rows: number of entries listed; the others are summed in one line.
    """
    entries = profile.by_kernel() if by_kernel else profile.calls()
    entries = sorted(entries, key=lambda entry: -entry.us)
    table = Table(title=_title(profile), title_justify="left", box=None, pad_edge=False)
    for heading in ("us", "share", "GFLOP/s", "GB/s", "threads", "calls"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("nodes", "operators", "rule", "kernel"):
        table.add_column(heading, overflow="fold")
    for entry in entries[:rows]:
        table.add_row(*_row(entry))
    if entries[rows:]:
        rest = entries[rows:]
        share = sum(entry.share for entry in rest)
        time = sum(entry.us for entry in rest)
        table.add_row(f"{time:.1f}", f"{share:.1%}", "", "", "", "", f"({len(rest)} others)")
    marked = {e.kernel: e.slow for e in entries[:rows] if e.slow}
    notes = [f"{SLOW} {kernel}: {reason}" for kernel, reason in marked.items()]
    return "\n".join([render(table), *notes])


def _title(profile: Profile) -> str:
    in_kernels = sum(entry.us for entry in profile.calls())
    return (
        f"{profile.total_us:.1f} us a run, {in_kernels:.1f} us of it in {len(profile.kernels)} "
        f"kernel calls; {profile.threads} threads, medians of {profile.runs} runs"
    )


def _row(entry: KernelTime) -> list[str]:
    return [
        f"{entry.us:.1f}",
        f"{entry.share:.1%}",
        f"{entry.gflops:.1f}",
        f"{entry.gbps:.1f}",
        str(entry.threads),
        str(entry.calls),
        _listed(entry.nodes),
        "+".join(entry.ops),
        f"{entry.rule} {SLOW}" if entry.slow else entry.rule,
        entry.kernel,
    ]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} +{more}" if more > 0 else shown
