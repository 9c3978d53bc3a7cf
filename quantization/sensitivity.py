"""Sensitivity analysis: the error at the output due to the quantisation of each layer.

All errors are computed by one program: the model with a switch at each quantised value and each
layer's weights. An input selects which of them are rounded. The model is run once per layer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from tcopt.quantization.annotation import annotate
from tcopt.quantization.data import Feeds
from tcopt.quantization.errors import ErrorSum, Results, output_error
from tcopt.quantization.layers import QuantizableLayer
from tcopt.quantization.onnx_graph import OnnxGraph
from tcopt.quantization.programs import Programs, with_outputs
from tcopt.quantization.realization import (
    SWITCHES,
    Realization,
    Switched,
    layer_owner,
    quantized,
    value_owner,
)


@dataclass(frozen=True)
class SwitchedModel:
    """A model whose quantisation is controlled by an input.

    Attributes:
        model: the model, whose outputs are followed by the results of layers.
        places: indices of quantised values and weights in the input `SWITCHES`.
        owners: returns the switches of a set of layers, given by name.
        results: name of the value that each layer computes, by layer.
    """

    model: ModelProto
    places: Mapping[str, int]
    owners: Callable[[Collection[str]], Collection[str]]
    results: Mapping[str, str]
    outputs: Sequence[str]


@dataclass(frozen=True)
class LayerError:
    """Errors due to quantising a single layer.

    Attributes:
        output: relative error at the model's output.
        sqnr_db: signal-to-noise ratio of the layer's own result.
    """

    output: float
    sqnr_db: float


def switched_model(
    graph: OnnxGraph, layers: Sequence[QuantizableLayer], realization: Realization
) -> SwitchedModel:
    """Return a float model with switches for all its layers."""
    gate, names = Switched(), {layer.name for layer in layers}
    made = quantized(graph, names, realization, gate)
    results = {layer.name: layer.result for layer in layers}
    known = set(graph.output_names)
    model = with_outputs(made, [name for name in results.values() if name not in known])

    def owners(chosen: Collection[str]) -> Collection[str]:
        some = [layer for layer in layers if layer.name in chosen]
        values = annotate(graph, some).values
        return [*map(value_owner, values), *map(layer_owner, chosen)]

    return SwitchedModel(model, gate.places, owners, results, graph.output_names)


class Sensitivity:
    """Errors due to quantising sets of layers, on some runs of the calibration data.

    Args:
        samples: inputs of the runs.
    """

    def __init__(self, switched: SwitchedModel, samples: Sequence[Feeds]):
        self._switched = switched
        self._samples = samples
        self._programs = Programs(switched.model)
        self._exact: list[dict[str, np.ndarray]] | None = None

    def layer_errors(self, told: Callable[[str], object] | None = None) -> dict[str, LayerError]:
        """Return the errors due to quantising each layer alone."""
        names = list(self._switched.results)
        outputs = {name: [ErrorSum() for _ in self._switched.outputs] for name in names}
        own = {name: ErrorSum() for name in names}
        for number, feeds in enumerate(self._samples):
            if told is not None:
                told(f"errors of layers, run {number + 1} of {len(self._samples)}")
            exact = self._run(feeds, ())
            for name in names:
                found = self._run(feeds, [name])
                for total, output in zip(outputs[name], self._switched.outputs, strict=True):
                    total.add(found[output], exact[output])
                value = self._switched.results[name]
                own[name].add(found[value], exact[value])
        return {
            name: LayerError(max(s.relative for s in outputs[name]), own[name].sqnr_db)
            for name in names
        }

    def error(self, layers: Collection[str]) -> float:
        """Return the relative error at the output with a set of layers quantised."""
        if self._exact is None:
            self._exact = [self._outputs(feeds, ()) for feeds in self._samples]
        found = [self._outputs(feeds, layers) for feeds in self._samples]
        return output_error(found, self._exact)

    def _outputs(self, feeds: Feeds, layers: Collection[str]) -> dict[str, np.ndarray]:
        results = self._run(feeds, layers)
        return {name: results[name] for name in self._switched.outputs}

    def _run(self, feeds: Feeds, layers: Collection[str]) -> Results:
        places = self._switched.places
        switches = np.zeros(max(len(places), 1), np.bool_)
        for owner in self._switched.owners(layers) if layers else ():
            if owner in places:
                switches[places[owner]] = True
        return self._programs.run({**feeds, SWITCHES: switches})
