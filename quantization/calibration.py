"""Calibration of activation scales from observed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.quantization.data import Feeds
from tcopt.quantization.layers import QuantizableLayer
from tcopt.quantization.onnx_graph import OnnxGraph
from tcopt.quantization.parameters import Parameters, parameters_for
from tcopt.quantization.programs import observed
from tcopt.quantization.ranges import Distribution, RangeSettings, chosen_range, merged
from tcopt.support.errors import InputError

Array = NDArray[Any]


def calibrate(
    graph: OnnxGraph,
    layers: Sequence[QuantizableLayer],
    samples: Sequence[Feeds],
    methods: Sequence[str],
    settings: RangeSettings,
) -> dict[str, dict[str, Parameters]]:
    """Return, for each method, the parameters of all values that layers quantise.

    Raises:
        InputError: a value is not finite for the calibration data.
    """
    names = dict.fromkeys(name for layer in layers for name in layer.values)
    names = [name for name in names if name not in graph.constants]
    found = distributions(graph, names, samples, histograms=set(methods) != {"minmax"})
    return {
        method: {name: _parameters(method, values, settings) for name, values in found.items()}
        for method in methods
    }


def _parameters(method: str, values: Distribution, settings: RangeSettings) -> Parameters:
    low, high = chosen_range(method, values, settings)
    return parameters_for(
        low,
        high,
        settings.integer,
        symmetric=settings.symmetric,
        power_of_two=settings.power_of_two,
    )


def distributions(
    graph: OnnxGraph, names: Sequence[str], samples: Sequence[Feeds], *, histograms: bool
) -> dict[str, Distribution]:
    """Return the distributions of values over all runs."""
    kinds = ["minimum", "maximum", *(["histogram"] if histograms else [])]
    runs = observed(graph, dict.fromkeys(names), kinds, samples)
    parts: dict[str, list[Distribution]] = {name: [] for name in names}
    for number, run in enumerate(runs):
        for name, told in run.items():
            parts[name].append(_distribution(name, number, told))
    return {name: merged(each) for name, each in parts.items()}


def _distribution(name: str, number: int, told: Mapping[str, Array]) -> Distribution:
    low, high = float(told["minimum"]), float(told["maximum"])
    if not (np.isfinite(low) and np.isfinite(high)):
        raise InputError(
            f"the value '{name}' is not finite in run {number} of the calibration data",
            hint="check the scaling of the model's inputs",
        )
    counts = told.get("histogram")
    return Distribution(low, high, np.ones(1) if counts is None else counts.astype(np.float64))


def channel_statistics(
    graph: OnnxGraph, axes: Mapping[str, int], samples: Sequence[Feeds], statistic: str
) -> dict[str, Array]:
    """Return a statistic for each index along an axis of values, over all runs.

    Args:
        statistic: `mean`, or `magnitude`, which is the maximum absolute value.
    """
    kinds = ["mean"] if statistic == "mean" else ["minimum", "maximum"]
    runs = observed(graph, axes, kinds, samples)
    found: dict[str, Array] = {}
    for name in axes:
        if statistic == "mean":
            rows = [run[name]["mean"] for run in runs]
            found[name] = np.asarray(np.mean(rows, axis=0, dtype=np.float64))
        else:
            rows = [np.maximum(-run[name]["minimum"], run[name]["maximum"]) for run in runs]
            found[name] = np.max(rows, axis=0)
    return found
