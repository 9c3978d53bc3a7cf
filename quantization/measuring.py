"""Measurement of a quantisation plan: errors by a model with switches, times by profiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tcopt.quantization.data import Feeds
from tcopt.quantization.errors import output_error
from tcopt.quantization.gains import layer_times, regions_of
from tcopt.quantization.layers import QuantizableLayer
from tcopt.quantization.onnx_graph import OnnxGraph
from tcopt.quantization.plan import SLOWER, LayerPlan, QuantizationPlan, Selection, choose
from tcopt.quantization.programs import Programs
from tcopt.quantization.sensitivity import LayerError, Sensitivity
from tcopt.runtime import Model
from tcopt.support.processes.turns import take_turns

Progress = Callable[[str], object]

_RUNS = 15
_ROUNDS = 6
_CORRECTIONS = 2
"""Number of times that layers which are slower in the chosen model are moved back to floats."""


@dataclass(frozen=True)
class PlanSettings:
    """Constraints of a plan.

    Attributes:
        max_error: maximum relative error at the output; by default any.
        min_gain: minimum part of its time that a layer must save.
        threads: number of threads for measuring times, by default all.
    """

    max_error: float | None = None
    min_gain: float = 0.0
    threads: int | None = None


class Measurement:
    """Measure a model in floats and in 8 bits, on some samples.

    Args:
        floats: the model in floats; its nodes have unique names.
        quantized: returns the model with the named layers quantised.
        samples: runs on which errors are measured; times are measured on the first.
    """

    def __init__(
        self,
        floats: OnnxGraph,
        layers: Sequence[QuantizableLayer],
        quantized: Callable[[Sequence[str]], OnnxGraph],
        samples: Sequence[Feeds],
        settings: PlanSettings,
    ):
        self.floats = floats
        self.layers = layers
        self.names = [layer.name for layer in layers]
        self.quantized = quantized
        self.samples = samples
        self.settings = settings
        self._programs: dict[tuple[str, ...], Programs] = {}

    def plan(self, sensitivity: Sensitivity, progress: Progress) -> QuantizationPlan:
        """Measure layers, and choose those to quantise."""
        settings = self.settings
        errors = sensitivity.layer_errors(progress)
        progress("times of layers")
        rows = self._rows(errors)
        total = sum(self._times(()).values()) / 1e3

        def chosen(rows: Sequence[LayerPlan]) -> Selection:
            return choose(
                rows,
                sensitivity.error,
                total,
                max_error=settings.max_error,
                min_gain=settings.min_gain,
            )

        choice = chosen(rows)
        for _ in range(_CORRECTIONS):
            names = [row.name for row in rows if choice.verdicts[row.name] != SLOWER]
            slower = self._slower(names) if names and names != self.names else set[str]()
            if not slower:
                break
            rows = [
                replace(row, int8_us=max(row.int8_us, row.float_us)) if row.name in slower else row
                for row in rows
            ]
            choice = chosen(rows)
        rows = [replace(row, verdict=choice.verdicts[row.name]) for row in rows]
        made = QuantizationPlan(rows, 0.0, choice.curve, choice.chosen)
        return self.compared(made, progress) if made.quantized else made

    def as_it_is(self, sensitivity: Sensitivity, progress: Progress) -> QuantizationPlan:
        """Measure a model in which all layers are quantised; verdicts recommend changes."""
        errors = sensitivity.layer_errors(progress)
        progress("times of layers")
        rows, settings = self._rows(errors), self.settings
        total = sum(self._times(()).values()) / 1e3
        choice = choose(
            rows,
            sensitivity.error,
            total,
            max_error=settings.max_error,
            min_gain=settings.min_gain,
        )
        measured = self.compared(QuantizationPlan(rows, 0.0, choice.curve, choice.chosen), progress)
        return replace(
            measured, layers=[replace(row, verdict=choice.verdicts[row.name]) for row in rows]
        )

    def compared(self, plan: QuantizationPlan, progress: Progress) -> QuantizationPlan:
        """Add the error and times of the chosen model to a plan."""
        progress("the chosen model")
        names = plan.quantized
        error = self.error(names)
        sides = {"floats": self._model(()), "chosen": self._model(names)}
        for model in sides.values():
            model.threads = self.settings.threads
        feeds = self.samples[0]
        times = take_turns({k: lambda m=m: m.run(feeds) for k, m in sides.items()}, _ROUNDS)
        return replace(
            plan,
            error=error,
            float_ms=times["floats"].median * 1e3,
            quantized_ms=times["chosen"].median * 1e3,
        )

    def error(self, names: Sequence[str]) -> float:
        """Return the relative error at the output with these layers quantised."""
        outputs = self.floats.output_names
        exact = [self._program(()).run(feeds) for feeds in self.samples]
        found = [self._program(names).run(feeds) for feeds in self.samples]
        return output_error(found, exact, outputs)

    def _rows(self, errors: dict[str, LayerError]) -> list[LayerPlan]:
        before, after = self._times(()), self._times(self.names)
        return [
            LayerPlan(
                layer.name,
                layer.operator,
                errors[layer.name].output,
                errors[layer.name].sqnr_db,
                before[layer.name],
                after[layer.name],
            )
            for layer in self.layers
        ]

    def _slower(self, names: Sequence[str]) -> set[str]:
        """Return the quantised layers that are slower than in floats, given their neighbours'
        types.
        """
        before, after = self._times(()), self._times(names)
        return {name for name in names if after[name] >= before[name]}

    def _times(self, names: Sequence[str]) -> dict[str, float]:
        graph = self.quantized(names) if names else self.floats
        profile = self._model(names).profile(self.samples[0], _RUNS)
        return layer_times(profile, regions_of(graph, self.names), self.names)

    def _model(self, names: Sequence[str]) -> Model:
        model = self._program(names).program(self.samples[0])
        model.threads = self.settings.threads
        return model

    def _program(self, names: Sequence[str]) -> Programs:
        key = tuple(names)
        if key not in self._programs:
            graph = self.quantized(names) if names else self.floats
            self._programs[key] = Programs(graph.model)
        return self._programs[key]
