"""Plots of tuning: the best time over a search, the gain of each layer, mispredictions.

The first plot is Figure 12 of the TVM paper: the best so far against trials, and next to it against
seconds, with a line for each search strategy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tcopt.support.errors import InputError

COLOURS = {"model": "#3b6fb6", "estimate": "#e08a2c", "random": "#8a8a8a"}
_OTHER = "#4f9d5d"
_ROW = 0.3
_NAMED = 5
"""Number of worst predictions that are labelled."""


@dataclass(frozen=True)
class Curve:
    """The results of one search of a task.

    Attributes:
        strategy: how choices were ranked.
        ratios: of the trials in order: times relative to the default's.
        seconds: at which each was measured, relative to the first.
    """

    strategy: str
    ratios: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def speeds(self) -> list[float]:
        """Speedup over the default of the best of the first n trials."""
        best = np.minimum.accumulate(np.minimum(np.asarray(self.ratios, np.float64), 1.0))
        return [float(1 / value) for value in best]


@dataclass(frozen=True)
class KernelTimes:
    """Microseconds of a kernel per run, before and after tuning."""

    name: str
    before_us: float
    after_us: float


@dataclass(frozen=True)
class Guess:
    """Predicted and measured rank of a choice in its batch, from 0 for the best to 1."""

    name: str
    guessed: float
    found: float

    @property
    def error(self) -> float:
        return abs(self.guessed - self.found)


def places(scores: Sequence[float], ratios: Sequence[float]) -> list[tuple[float, float]]:
    """Return the predicted and the measured rank of each choice in a batch."""
    count = len(scores)
    if count < 2:
        return []
    guessed, found = np.argsort(np.argsort(-np.asarray(scores))), np.argsort(np.argsort(ratios))
    last = count - 1
    return [(float(g) / last, float(f) / last) for g, f in zip(guessed, found, strict=True)]


def draw_curves(curves: Mapping[str, Sequence[Curve]], path: Path) -> None:
    """Plot the best so far against trials and seconds, with a row of two plots for each task."""
    pyplot = import_pyplot()
    rows = max(len(curves), 1)
    figure, axes = pyplot.subplots(
        rows, 2, figsize=(10, 2.8 * rows), layout="constrained", squeeze=False
    )
    for (name, own), (by_trials, by_seconds) in zip(curves.items(), axes, strict=True):
        for curve in own:
            style = {
                "color": COLOURS.get(curve.strategy, _OTHER),
                "label": curve.strategy,
                "linewidth": 1.4,
            }
            speeds = curve.speeds
            by_trials.step(range(1, len(speeds) + 1), speeds, where="post", **style)
            by_seconds.step(curve.seconds, speeds, where="post", **style)
        by_trials.set_title(name, fontsize=9, loc="left")
        by_trials.set_xlabel("trials")
        by_seconds.set_xlabel("seconds")
        by_trials.set_ylabel("speedup over the default")
        for each in (by_trials, by_seconds):
            each.axhline(1.0, color="black", linewidth=0.6)
            each.grid(alpha=0.25)
        _legend(by_trials)
    _save(pyplot, figure, path)


def draw_layers(layers: Sequence[KernelTimes], path: Path) -> None:
    """Plot each kernel's time before and after as bars."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(
        figsize=(9, 1.2 + 2 * _ROW * max(len(layers), 1)), layout="constrained"
    )
    for number, layer in enumerate(layers):
        axes.barh(number - 0.2, layer.before_us, 0.38, color="#b8b8b8")
        axes.barh(number + 0.2, layer.after_us, 0.38, color=COLOURS["model"])
        gain = layer.before_us / layer.after_us if layer.after_us else 1.0
        axes.annotate(f" {gain:.2f}x", (layer.after_us, number + 0.2), va="center", fontsize=7)
    axes.set_yticks(range(len(layers)), [layer.name for layer in layers], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("microseconds of a run: default (grey), tuned")
    _save(pyplot, figure, path)


def draw_guesses(guesses: Sequence[Guess], path: Path) -> None:
    """Plot predicted against measured ranks, with the worst predictions labelled."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(figsize=(6, 6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.6)
    axes.scatter(
        [g.guessed for g in guesses],
        [g.found for g in guesses],
        s=9,
        alpha=0.5,
        color=COLOURS["model"],
    )
    for guess in sorted(guesses, key=lambda each: -each.error)[:_NAMED]:
        axes.annotate(guess.name, (guess.guessed, guess.found), fontsize=6)
    axes.set_xlabel("predicted rank in its batch (0: the best)")
    axes.set_ylabel("measured rank")
    _save(pyplot, figure, path)


def import_pyplot() -> Any:
    """Import matplotlib.pyplot, for drawing to files.

    Raises:
        InputError: it is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise InputError(
            f"plots need matplotlib: {error}", hint="pip install 'tcopt[bench]'"
        ) from error
    return pyplot


def _legend(axes: Any) -> None:
    """Add a legend with one entry for each label."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        once = dict(zip(labels, handles, strict=True))
        axes.legend(once.values(), once.keys(), fontsize=7, loc="lower right")


def _save(pyplot: Any, figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write '{path}': {error}", hint="PNG, SVG or PDF") from error
    finally:
        pyplot.close(figure)
