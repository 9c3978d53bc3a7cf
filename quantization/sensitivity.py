"""What each layer's quantisation adds to the error at the output.

One program computes all of it: the model with a switch at each quantised value and each layer's
weights, an input that says which of them are rounded. It is run once for each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from tcopt.quantization.annotation import annotate
from tcopt.quantization.data import Feeds
from tcopt.quantization.errors import ErrorSum, Results, output_error
from tcopt.quantization.layers import Layer
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
    """A model whose quantisation is an input.

    Attributes:
        model: gives its own outputs, and then the results of layers.
        places: of what is quantised, in the input `SWITCHES`.
        owners: what is quantised where some layers, by name, are.
        results: of layers by name, the value that each computes.
    """

    model: ModelProto
    places: Mapping[str, int]
    owners: Callable[[Collection[str]], Collection[str]]
    results: Mapping[str, str]
    outputs: Sequence[str]


@dataclass(frozen=True)
class LayerError:
    """What quantising one layer alone does.

    Attributes:
        output: the relative error at the model's output.
        sqnr_db: signal to noise of the layer's own result.
    """

    output: float
    sqnr_db: float


def switched_model(
    graph: OnnxGraph, layers: Sequence[Layer], realization: Realization
) -> SwitchedModel:
    """A float model with switches for all its layers."""
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
    """Errors that sets of layers make, on some runs of the calibration data.

    Args:
        samples: the runs.
    """

    def __init__(self, switched: SwitchedModel, samples: Sequence[Feeds]):
        self._switched = switched
        self._samples = samples
        self._programs = Programs(switched.model)
        self._exact: list[dict[str, np.ndarray]] | None = None

    def layer_errors(self, told: Callable[[str], object] | None = None) -> dict[str, LayerError]:
        """What each layer does alone."""
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
        """The relative error at the output where all these layers are quantised."""
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
