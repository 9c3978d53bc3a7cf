"""Models compiled for calibration, one program for each combination of shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto

import tcopt
from tcopt.quantization.data import Feeds
from tcopt.quantization.onnx_graph import OnnxGraph
from tcopt.runtime import Model
from tcopt.support.errors import UnsupportedError

Array = NDArray[Any]
Shapes = tuple[tuple[str, tuple[int, ...]], ...]

FIRST = "before:graph"
"""Pipeline position before all passes on the imported model."""


class Programs:
    """Programs of a model, compiled on demand.

    Args:
        options: options of `tcopt.compile`.
    """

    def __init__(self, model: ModelProto, **options: Any):
        self._model = model
        self._options = options
        self._programs: dict[Shapes, Model] = {}

    def program(self, feeds: Feeds) -> Model:
        """Return the program for the shapes of a run.

        Raises:
            UnsupportedError: shapes inside the model depend on data.
        """
        shapes = tuple((name, array.shape) for name, array in sorted(feeds.items()))
        if shapes not in self._programs:
            model = tcopt.compile(self._model, shapes=dict(shapes), **self._options)
            if len(model.parts) > 1:
                raise UnsupportedError(
                    "shapes inside the model depend on data, so it cannot be calibrated"
                )
            self._programs[shapes] = model
        return self._programs[shapes]

    def run(self, feeds: Feeds) -> dict[str, Array]:
        """Run the model; return its results by name."""
        model = self.program(feeds)
        results = model.run(feeds)
        return {
            spec.name: np.asarray(value) for spec, value in zip(model.outputs, results, strict=True)
        }


def with_outputs(graph: OnnxGraph, names: Sequence[str]) -> ModelProto:
    """Return a model with additional outputs, after its own."""
    model = ModelProto()
    model.CopyFrom(graph.model)
    model.graph.output.extend(ValueInfoProto(name=name) for name in names)
    return model


def observed(
    graph: OnnxGraph,
    axes: Mapping[str, int | None],
    statistics: Sequence[str],
    samples: Sequence[Feeds],
    **options: Any,
) -> list[dict[str, dict[str, Array]]]:
    """Observe statistics of values in each run, computed in compiled code.

    Args:
        axes: for each value, the axis to keep; None to reduce over all axes.
        statistics: names of statistics, see the pass `insert-observers`.
    Returns:
        For each run, the statistics by value and name.
    """
    if not axes:
        return [{} for _ in samples]
    own = set(graph.output_names)
    # A value must not be an output twice, so inputs and outputs are observed through a copy.
    renamed = _with_copies(graph, [name for name in axes if name in own or _is_input(graph, name)])
    names = [renamed[1].get(name, name) for name in axes]
    given = with_outputs(renamed[0], names)
    del given.graph.output[: len(own)]
    listed = ",".join(f'"{"all" if axis is None else axis}"' for axis in axes.values())
    kinds = ",".join(statistics)
    passes = {FIRST: f"insert-observers{{statistics={kinds} axes={listed}}}"}
    programs = Programs(given, passes=passes, **options)
    found: list[dict[str, dict[str, Array]]] = []
    for feeds in samples:
        results = programs.run(feeds)
        found.append(
            {
                value: {kind: results[f"{name}:{kind}"] for kind in statistics}
                for value, name in zip(axes, names, strict=True)
            }
        )
    return found


def _is_input(graph: OnnxGraph, name: str) -> bool:
    return name in graph.input_names


def _with_copies(graph: OnnxGraph, names: Sequence[str]) -> tuple[OnnxGraph, dict[str, str]]:
    """Return a copy of a model with a renamed copy of some values."""
    if not names:
        return graph, {}
    made = graph.copy()
    return made, {name: made.add_node("Identity", [name], f"{name}_observed") for name in names}
