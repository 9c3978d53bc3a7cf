"""The results as a chart: the ratio to the faster peer of every case."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tcopt.tools.benchmarking.report import Outcome

_COLOURS = ("#3b6fb6", "#e08a2c", "#4f9d5d", "#a04f9d")
_ROW = 0.22


def draw(outcomes: Mapping[str, list[Outcome]], path: Path) -> None:
    """Write bars of ratios, one colour a number of threads, as PNG, SVG or PDF."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

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
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
