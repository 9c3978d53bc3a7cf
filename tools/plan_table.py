"""Plans as tables, JSON and plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from tcopt.quantization.plan import LayerPlan, QuantizationPlan
from tcopt.support.errors import InputError, printable
from tcopt.tools.command_line.text_tables import render
from tcopt.tools.tuning.plots import import_pyplot

_NAME_LENGTH = 60


def plan_text(plan: QuantizationPlan) -> str:
    """Return a table of the layers, and a summary of the choice."""
    table = Table(box=None, pad_edge=False)
    table.add_column("layer", overflow="fold")
    table.add_column("operator")
    for title in ("error", "SQNR dB", "float us", "8 bits us", "saved"):
        table.add_column(title, justify="right")
    table.add_column("")
    for layer in plan.layers:
        table.add_row(*_row(layer))
    return "\n".join([render(table), "", summary(plan)])


def _row(layer: LayerPlan) -> list[str]:
    return [
        printable(layer.name, _NAME_LENGTH),
        layer.operator,
        f"{layer.error:.2g}",
        "-" if math.isinf(layer.sqnr_db) else f"{layer.sqnr_db:.1f}",
        f"{layer.float_us:.0f}",
        f"{layer.int8_us:.0f}",
        f"{layer.gain:.0%}",
        layer.verdict,
    ]


def summary(plan: QuantizationPlan) -> str:
    """Summarise the choice in one or two lines."""
    count = f"{len(plan.quantized)} of {len(plan.layers)} layers in 8 bits"
    lines = [f"{count}, error at the output {plan.error:.3g}"]
    if plan.float_ms is not None and plan.quantized_ms is not None:
        lines.append(
            f"{plan.float_ms:.3g} ms in floats, {plan.quantized_ms:.3g} ms as chosen: "
            f"{plan.float_ms / plan.quantized_ms:.2f}x as fast, interleaved"
        )
        if plan.quantized_ms > plan.float_ms:
            lines.append(
                "the model is slower than in floats; --min-gain excludes the layers that save least"
            )
    return "\n".join(lines)


def plan_json(plan: QuantizationPlan) -> dict[str, Any]:
    """Return a plan as JSON values; infinite values become null."""

    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): finite(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [finite(each) for each in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    layers = [
        asdict(layer) | {"saved_us": layer.saved_us, "quantized": layer.is_quantized}
        for layer in plan.layers
    ]
    return finite(asdict(plan) | {"layers": layers})


def draw_plan(plan: QuantizationPlan, path: Path) -> None:
    """Plot error against time for sets of layers, with the chosen one marked.

    Raises:
        InputError: there is no matplotlib, or the file cannot be written.
    """
    pyplot = import_pyplot()
    figure, (curve, layers) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    _draw_curve(curve, plan)
    _draw_layers(layers, plan.layers)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write '{path}': {error}", hint="PNG, SVG or PDF") from error
    finally:
        pyplot.close(figure)


def _draw_curve(axes: Any, plan: QuantizationPlan) -> None:
    points = sorted(plan.curve, key=lambda point: point.time_ms)
    axes.plot([p.time_ms for p in points], [p.error for p in points], marker=".", color="#3b6fb6")
    if plan.chosen is not None:
        own = plan.chosen
        axes.plot([own.time_ms], [own.error], "o", color="#e08a2c", label=f"{own.layers} layers")
        axes.legend(fontsize=8)
    axes.set_xlabel("time expected, ms")
    axes.set_ylabel("error at the output")
    axes.grid(alpha=0.25)


def _draw_layers(axes: Any, layers: Sequence[LayerPlan]) -> None:
    for chosen, colour, label in ((True, "#3b6fb6", "8 bits"), (False, "#8a8a8a", "float")):
        own = [layer for layer in layers if layer.is_quantized is chosen]
        axes.plot(
            [layer.saved_us for layer in own],
            [layer.error for layer in own],
            "o",
            color=colour,
            label=label,
            markersize=4,
        )
    worst = sorted(layers, key=lambda layer: -layer.error)[:3]
    for layer in worst:
        place = (layer.saved_us, layer.error)
        axes.annotate(printable(layer.name, 24), place, fontsize=7, xytext=(3, 3),
                      textcoords="offset points")  # fmt: skip
    axes.axvline(0.0, color="black", linewidth=0.6)
    axes.set_xlabel("time saved by the layer, us")
    axes.set_ylabel("error at the output, this layer alone")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.25)
