"""Results as charts: ratios to the faster peer, bars by name, and lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tcopt.tools.benchmarking.report import BenchOutcome

_COLOURS = ("#3b6fb6", "#e08a2c", "#4f9d5d", "#a04f9d")
_ROW = 0.22


def draw(outcomes: Mapping[str, list[BenchOutcome]], path: Path) -> None:
    """Write bars of ratios, one colour a number of threads, as PNG, SVG or PDF."""
    pyplot = import_pyplot()
    measured = {n: [o for o in each if o.ratio] for n, each in outcomes.items()}
    names = [name for name, each in measured.items() if each]
    threads = sorted({o.threads for each in measured.values() for o in each})
    height = 1.2 + _ROW * len(names) * max(len(threads), 1)
    figure, axes = pyplot.subplots(figsize=(9, height), layout="constrained")
    thickness = 0.8 / max(len(threads), 1)
    for number, count in enumerate(threads):
        bars = {n: o.ratio for n in names for o in measured[n] if o.threads == count}
        places = [names.index(n) + (number - (len(threads) - 1) / 2) * thickness for n in bars]
        label = f"{count} thread" + ("s" if count > 1 else "")
        colour = _COLOURS[number % len(_COLOURS)]
        axes.barh(places, list(bars.values()), thickness, label=label, color=colour)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set_xlabel("times as fast as the faster peer")
    if threads:
        axes.legend(loc="lower right")
    _save(pyplot, figure, path)


def draw_bars(
    names: Sequence[str], bars: Mapping[str, Sequence[float]], label: str, path: Path
) -> None:
    """Write groups of bars, a group for each name and a colour for each series."""
    pyplot = import_pyplot()
    width = max(4.0, 0.45 * len(names) + 1.5)
    figure, axes = pyplot.subplots(figsize=(width, 3.2), layout="constrained")
    thickness = 0.8 / len(bars)
    for number, (series, heights) in enumerate(bars.items()):
        offset = (number - (len(bars) - 1) / 2) * thickness
        positions = [position + offset for position in range(len(names))]
        axes.bar(positions, heights, thickness, label=series, color=_COLOURS[number])
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(names)), names, rotation=45 if max(map(len, names)) > 3 else 0)
    axes.set_ylabel(label)
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(bars))
    _save(pyplot, figure, path)


def draw_lines(lines: Mapping[str, Sequence[float]], labels: tuple[str, str], path: Path) -> None:
    """Write a line for each series over 1, 2, ..."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    for number, (series, values) in enumerate(lines.items()):
        steps = range(1, len(values) + 1)
        axes.plot(list(steps), list(values), label=series, color=_COLOURS[number])
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.legend(loc="lower right")
    _save(pyplot, figure, path)


def import_pyplot() -> Any:
    """matplotlib's pyplot without a display, whose SVG files are equal for equal data."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tcopt"
    from matplotlib import pyplot

    return pyplot


def _save(pyplot: Any, figure: Any, path: Path) -> None:
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=120, metadata=metadata)
    pyplot.close(figure)
