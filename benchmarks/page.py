"""The results as a Markdown page."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from case import Case
from groups import Standing, standings
from tcopt.support.files.access import write_output
from tcopt.tools.benchmarking.report import BenchOutcome, outcomes

_TITLES = {
    "models": "Networks",
    "conv": "Convolutions of the TVM paper, from and to NCHW",
    "depthwise": "Depthwise convolutions of the TVM paper",
    "windows": "Dilated, transposed and other windows",
    "matmul": "Matrix products",
    "memory": "Operators that move data",
    "fusion": "Fused operators of the TVM paper",
}

_COMPILED = {
    "cold": "nothing cached",
    "kernels": "kernels cached",
    "warm": "program cached",
}


def write_page(
    path: Path,
    results: Mapping[str, Any],
    suites: Mapping[str, Sequence[Case]],
    compiles: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the measurements, the groups first and then a table for each suite.

    Args:
        results: output of `run.py`: machine, settings and cases.
        compiles: output of `compile_time.py --json`.
    """
    found = {
        case.name: report
        for cases in suites.values()
        for case in cases
        if (report := results["cases"].get(case.name)) and "error" not in report
    }
    measured = {name: outcomes(report) for name, report in found.items()}
    parts = [_introduction(results, measured), _groups(standings(measured))]
    for suite, cases in suites.items():
        names = [case.name for case in cases if case.name in found]
        if names:
            table = _networks if suite == "models" else _layers
            rows = "\n".join(table(name, found[name], measured[name]) for name in names)
            head = _head(measured[names[0]], ("scaling", "workspace") if suite == "models" else ())
            parts.append(f"## {_TITLES.get(suite, suite)}\n\n{head}\n{rows}\n")
    if compiles:
        parts.append(_compiles(compiles))
    parts.append(_AGAIN)
    write_output(path, "\n".join(parts))


_AGAIN = """## Again

```sh
make bench
python benchmarks/run.py --report --page docs/performance.md
```
"""


def _introduction(results: Mapping[str, Any], measured: Mapping[str, list[BenchOutcome]]) -> str:
    machine, settings = results["machine"], results["settings"]
    versions = machine["versions"]
    peers = " and ".join(f"{peer} {versions.get(peer, '')}".strip() for peer in settings["peers"])
    several = "the fastest of them" if len(settings["peers"]) > 1 else "theirs"
    peaks = sorted(
        o.peak_gflops / o.threads
        for each in measured.values()
        for o in each
        if not o.is_memory_bound
    )
    peak = ""
    if peaks:
        tenth = peaks[len(peaks) // 10]
        peak = (
            f"\nThe measured peak of a core varied between {peaks[0]:.0f} and {peaks[-1]:.0f}"
            f" GFLOP/s, nine times in ten above {tenth:.0f}:\nwhat else its host does shows in"
            " the times, and ratios vary by a tenth from run to run."
        )
    system = machine.get("system", platform.platform())
    processor = f"{machine['cpu']} ({machine['llvm_cpu']}), {machine['vector_bits']}-bit vectors"
    return f"""# Measured

Medians of {settings["rounds"]} rounds at a batch of one, in turns in one run
([how](benchmarking.md#how-it-is-measured)), against {peers}
in float32. Nothing is tuned. A ratio is the time of {several} over ours: above 1, this
compiler's code is faster.

{processor}, {machine["cores"]} cores,
{machine["memory_bytes"] / 2**30:.0f} GiB, {system}.{peak}

![the ratio of every case](performance.svg)
"""


def _groups(found: Iterable[Standing]) -> str:
    rows = [
        "| "
        + " | ".join(
            (
                each.title,
                str(each.threads),
                f"{each.mean:.2f}",
                f"{min(each.ratios.values()):.2f}"
                f" ({min(each.ratios, key=lambda name: each.ratios[name])})",
                f"{each.goal:.2f}",
                "yes" if each.met else "no",
            )
        )
        + " |"
        for each in found
    ]
    head = "| | threads | mean ratio | least | aimed at | met |\n|---|---|---|---|---|---|"
    return (
        "## Groups\n\nMeans are geometric. What is aimed at is the mean and a least ratio in the"
        " large groups, and every\nmember in the small ones (`benchmarks/groups.py`).\n\n"
        + "\n".join((head, *rows))
        + "\n"
    )


def _head(measured: Sequence[BenchOutcome], more: Sequence[str]) -> str:
    cells: list[str] = [""]
    for outcome in measured:
        plural = "s" if outcome.threads > 1 else ""
        cells += [f"ms, {outcome.threads} thread{plural}", *outcome.peers_ms, "ratio", "of limit"]
    cells += more
    return f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}"


def _cells(name: str, measured: Sequence[BenchOutcome]) -> list[str]:
    cells = [name]
    for outcome in measured:
        times = (outcome.ours_ms, *outcome.peers_ms.values())
        ratio = "" if outcome.ratio is None else f"{outcome.ratio:.2f}"
        cells += [*(f"{time:.3g}" for time in times), ratio, f"{outcome.share:.0%}"]
    return cells


def _layers(name: str, _report: Mapping[str, Any], measured: Sequence[BenchOutcome]) -> str:
    return f"| {' | '.join(_cells(name, measured))} |"


def _networks(name: str, report: Mapping[str, Any], measured: Sequence[BenchOutcome]) -> str:
    plan = report["memory_plan"]
    bound = plan["workspace"] / plan["lower_bound"] if plan["lower_bound"] else 1.0
    scaling = measured[0].ours_ms / measured[-1].ours_ms
    more = (f"{scaling:.2f}", f"{plan['workspace'] / 1e6:.1f} MB, {bound:.2f}")
    return f"| {' | '.join((*_cells(name, measured), *more))} |"


def _compiles(compiles: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        f"| {each['model']} | {what} | {each[kind]['seconds']:.2f} |"
        f" {each[kind]['cpu_seconds']:.2f} | {each[kind]['kernels_compiled']} |"
        f" {each[kind]['peak_mb']:.0f} |"
        for each in compiles
        for kind, what in _COMPILED.items()
    ]
    head = "| | cache | s | CPU s | kernels compiled | peak MB |\n|---|---|---|---|---|---|"
    return (
        "## Compiling\n\nA new process each, its imports included (`benchmarks/compile_time.py`);"
        " the memory is that of the\nprocess without its workers.\n\n"
        + "\n".join((head, *rows))
        + "\n"
    )
