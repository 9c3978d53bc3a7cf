"""Measurements of `tuning.py` for a page: a chart and a Markdown table.

    python benchmarks/tuning_page.py search.json warm.json gains.json --chart docs/tuning.svg

Takes any of the files that `search`, `warm` and `gains` write with `--json`, in any order. The
chart shows the geometric mean, over the kernels that all strategies have, of the best speed-up over
the default so far, against trials.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from tcopt.support.errors import InputError
from tcopt.tools.command_line.cli import ArgumentParser, run_tool
from tcopt.tools.tuning.plots import COLOURS

PROG = "tuning_page"
WARM = "warm"
_OTHER = "#4f9d5d"

Curves = dict[str, dict[str, list[list[float]]]]
"""By strategy and kernel: the best time after each trial, relative to the default's; one series for
each seed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_tool(PROG, partial(_run, _parser().parse_args(argv)))


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(PROG, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what was measured")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="PNG, SVG or PDF")
    return parser


def _run(args: argparse.Namespace) -> int:
    runs = [run for path in args.files for run in _runs(path)]
    curves = curves_of(runs)
    print("\n".join(page(curves, runs)))
    if args.chart is not None:
        draw(curves, args.chart)
    return 0


def _runs(path: Path) -> list[Mapping[str, Any]]:
    try:
        found = json.loads(path.read_text())
        return list(found["runs"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"'{path}' is nothing that tuning.py wrote: {error}") from None


def curves_of(runs: Sequence[Mapping[str, Any]]) -> Curves:
    """Return the best so far of each search."""
    curves: Curves = {}
    for run in runs:
        best, falling = 1.0, list[float]()
        for ratio in run["ratios"]:
            best = min(best, ratio)
            falling.append(best)
        if falling:
            way = WARM if run["warm"] else run["strategy"]
            curves.setdefault(way, {}).setdefault(run["case"], []).append(falling)
    return curves


def speed_after(searches: Sequence[Sequence[float]], trials: int) -> float:
    """Return the speed-up over the default of the best after some trials: the median of seeds."""
    return 1 / median(each[min(trials, len(each)) - 1] for each in searches)


def _shared(curves: Curves) -> list[str]:
    """Return the kernels that all strategies have."""
    cases = [set(each) for each in curves.values()]
    return sorted(set[str].intersection(*cases)) if cases else []


def page(curves: Curves, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return rows for each kernel, and their summary."""
    ways, names = sorted(curves), sorted({case for each in curves.values() for case in each})
    lines = [f"| kernel | {' | '.join(ways)} |", f"|---|{'---|' * len(ways)}"]
    for name in names:
        ends = [
            f"{speed_after(curves[way][name], 1 << 30):.3f}x" if name in curves[way] else ""
            for way in ways
        ]
        lines.append(f"| {name} | {' | '.join(ends)} |")
    shared = _shared(curves)
    if shared:
        means = [
            geometric_mean(speed_after(curves[way][name], 1 << 30) for name in shared)
            for way in ways
        ]
        lines.append(f"| geometric mean | {' | '.join(f'{mean:.3f}x' for mean in means)} |")
    confirmed = [run for run in runs if run.get("default_ns")]
    if confirmed:
        gains = [run["confirmed"] for run in confirmed]
        lines += ["", f"measured once more: {geometric_mean(gains):.3f}x of {len(gains)} searches"]
    return lines


def draw(curves: Curves, path: Path) -> None:
    """Draw the chart."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("charts need matplotlib", hint="pip install 'tcopt[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    shared = _shared(curves)
    if not shared:
        raise InputError("no kernel was searched in all ways", hint="name files of the same cases")
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for way, cases in sorted(curves.items()):
        longest = max(len(each) for name in shared for each in cases[name])
        trials = range(1, longest + 1)
        means = [geometric_mean(speed_after(cases[n], t) for n in shared) for t in trials]
        axes.plot(list(trials), means, label=way, color=COLOURS.get(way, _OTHER))
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("trials")
    axes.set_ylabel(f"times as fast as the default, {len(shared)} kernels")
    axes.set_xscale("log", base=2)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
