"""`tcopt.quantize`: quantise layers of a model to 8 bits, with QuantizeLinear nodes.

found = tcopt.quantize("model.onnx", {"image": images}, output="model.int8.onnx")
print(found.plan.error, found.plan.quantized)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from tcopt.compiler.driver import declared_specs
from tcopt.frontends.onnx.model.loading import MODEL_SIZE_LIMIT
from tcopt.frontends.onnx.model.options import Source
from tcopt.quantization.batch_norm import FoldBatchNorm
from tcopt.quantization.bias_correction import bias_shifts
from tcopt.quantization.calibration import calibrate
from tcopt.quantization.data import Data, Feeds, samples_of
from tcopt.quantization.equalization import EqualizeLayers
from tcopt.quantization.integer_models import in_floats, integer_node, switched_pairs
from tcopt.quantization.layers import RULES, Behind, QuantizableLayer, element_types, layers_of
from tcopt.quantization.measuring import Measurement, PlanSettings
from tcopt.quantization.onnx_graph import OnnxGraph, check_model, open_graph
from tcopt.quantization.parameters import Integer
from tcopt.quantization.patterns import rewrite
from tcopt.quantization.plan import LayerPlan, QuantizationPlan
from tcopt.quantization.ranges import METHODS, RangeSettings, find_method
from tcopt.quantization.realization import Realization, quantized
from tcopt.quantization.sensitivity import Sensitivity, switched_model
from tcopt.quantization.smoothing import smooth
from tcopt.quantization.weights import WeightSettings
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.support.files.access import open_output

Progress = Callable[[str], object]

BEST = "best"
"""Value of `method` that selects the calibration method with the smallest error."""

SAMPLES = 4
"""Default number of samples on which errors are measured."""


@dataclass(frozen=True)
class QuantizeSettings:
    """Settings of quantisation; see `quantize`."""

    method: str = "percentile"
    percentile: float = 99.99
    activations: str = Integer.UINT8.value
    symmetric: bool = False
    per_channel: bool = True
    symmetric_weights: bool = True
    power_of_two: bool = False
    bias_correction: bool = True
    equalize: bool = False
    smooth: float | None = None
    functions: bool = True
    sums: bool = True
    floats: Collection[str] = ()
    batch: int | None = None
    samples: int = SAMPLES

    @property
    def ranges(self) -> RangeSettings:
        """Settings of calibration.

        Raises:
            InputError: a setting has an invalid value.
        """
        self._check_types()
        names = [each.value for each in Integer]
        if self.activations not in names:
            hint = f"it is one of {', '.join(names)}"
            raise InputError(f"activations are not stored as '{self.activations}'", hint=hint)
        if not 50 < self.percentile <= 100:
            raise InputError(f"a percentile is above 50 and up to 100, not {self.percentile:g}")
        if self.smooth is not None and not 0 <= self.smooth <= 1:
            raise InputError(f"a strength of smoothing is from 0 to 1, not {self.smooth:g}")
        if self.samples < 1 or (self.batch is not None and self.batch < 1):
            raise InputError("sample count and batch size must be at least 1")
        if self.method != BEST:
            find_method(self.method)
        integer = Integer(self.activations)
        return RangeSettings(integer, self.symmetric, self.power_of_two, self.percentile)

    def _check_types(self) -> None:
        """Raise InputError unless numeric settings are numbers."""
        for name in ("samples", "batch"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Integral)):
                raise InputError(f"'{name}' must be an integer, not {value!r}")
        for name in ("percentile", "smooth"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
                raise InputError(f"'{name}' must be a number, not {value!r}")

    @property
    def behind(self) -> Behind:
        """Operations after layers that are quantised with them."""
        return Behind(self.functions, self.sums)

    @property
    def weights(self) -> WeightSettings:
        """Settings of weight quantisation."""
        return WeightSettings(
            self.per_channel,
            self.symmetric_weights,
            self.power_of_two,
            clipped=self.method != "minmax",
        )


@dataclass(frozen=True)
class Quantized:
    """The result of quantising a model.

    Attributes:
        model: with QuantizeLinear and DequantizeLinear.
        plan: the error of the model on the calibration data; if layers were measured, also the
            facts of each layer.
        path: the file that was written.
    """

    model: ModelProto
    plan: QuantizationPlan
    path: Path | None = None

    @property
    def layers(self) -> list[str]:
        """Names of the layers that are quantised to 8 bits."""
        return self.plan.quantized


@dataclass
class _Prepared:
    """A model about to be quantised.

    Attributes:
        names: original names of renamed nodes.
    """

    graph: OnnxGraph
    layers: list[QuantizableLayer]
    samples: list[Feeds]
    names: dict[str, str] = field(default_factory=dict[str, str])


def quantize(
    source: Source,
    data: Data,
    *,
    output: str | Path | None = None,
    plan: bool = True,
    max_error: float | None = None,
    min_gain: float = 0.0,
    threads: int | None = None,
    follow_links: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Quantized:
    """Quantise layers of an ONNX model to 8 bits, where this pays off.

    The result is a standard model with QuantizeLinear and DequantizeLinear, for this and other
    compilers. Weights are int8, biases int32.

    Args:
        source: an ONNX file, its bytes, or a decoded model.
        data: calibration data: an array for each input by name, or several such sets; see
            `tcopt.quantization.data.samples_of`.
        output: a file to write.
        plan: whether to measure layers and keep those in floats that save no time. Otherwise all
            layers are quantised.
        max_error: with a plan, the maximum error at the output: the root mean square of the
            difference, relative to that of the output.
        min_gain: with a plan, the minimum part of its time that a layer must save.
        threads: number of threads for measuring times, by default all.
        follow_links: as `tcopt.compile` takes it.
        progress: called with a line before each step.
        settings: `method` of calibration (`minmax`, `percentile`, `entropy`, `mse`, or `best` of
            these by the error at the output), `percentile`, `activations` (`uint8` or `int8`),
            `symmetric`, `per_channel`, `symmetric_weights`, `power_of_two`, `bias_correction`,
            `equalize`, `smooth` (the strength, None for none), `functions` and `sums` (whether
            elementwise functions, and sums of two computed values, after layers are quantised as
            well), `floats` (names of layers that stay in floats), `batch` (the extent of the first
            dimension if it is open), `samples` (number of runs on which errors are measured).
    Raises:
        InputError: data or settings that do not fit, or a model that is quantised already.
        UnsupportedError: a model without a layer to quantise, or in which none pays off.
    """
    progress = progress or (lambda text: None)
    known = _settings(settings)
    _check_limits(max_error, min_gain)
    ready = _prepared(source, data, known, follow_links)
    progress(f"{len(ready.layers)} layers, {len(ready.samples)} runs of calibration data")
    realization = _calibrated(ready, known, progress)
    graph, layers = ready.graph, ready.layers
    names = [layer.name for layer in layers]
    samples = ready.samples[: known.samples]
    limits = PlanSettings(max_error, min_gain, threads)
    measurement = _measurement(graph, layers, realization, samples, limits)
    if plan:
        sensitivity = Sensitivity(switched_model(graph, layers, realization), samples)
        found = measurement.plan(sensitivity, progress)
        if not found.quantized:
            raise _none_pays(found, max_error)
    else:
        error = measurement.error(names)
        rows = [LayerPlan(each.name, each.operator) for each in layers]
        found = QuantizationPlan(rows, error)
    if not isfinite(found.error):
        raise UnsupportedError(
            "the results of the quantised model are not finite, so it is discarded",
            hint="values near the greatest float become infinite: scale the model's, or leave "
            "layers in floats",
        )
    result = measurement.quantized(found.quantized)
    for node in result.graph.node:
        node.name = ready.names.get(node.name, node.name)
    check_model(result.model)
    path = None if output is None else write_model(result.model, output)
    return Quantized(result.model, found, path)


def report(
    source: Source,
    data: Data,
    *,
    max_error: float | None = None,
    min_gain: float = 0.0,
    threads: int | None = None,
    follow_links: bool = False,
    progress: Progress | None = None,
    batch: int | None = None,
    samples: int = SAMPLES,
) -> QuantizationPlan:
    """Return the plan of a model that is already quantised, with QuantizeLinear and
    DequantizeLinear.

    The original weights are unknown, so errors only cover activations.

    Args: as `quantize`.
    Raises:
        InputError: data that does not fit, or a model that is not quantised.
        UnsupportedError: a model with operators on integers.
    """
    progress = progress or (lambda text: None)
    _check_limits(max_error, min_gain)
    graph = open_graph(source, follow_links=follow_links)
    if integer_node(graph) is None:
        raise InputError("the model is not quantised", hint="quantise it without --report")
    runs = samples_of(data, declared_specs(graph.model)[0], batch)[:samples]
    graph.name_nodes()
    floats = in_floats(graph)
    switched, layers = switched_pairs(graph, floats)
    if not layers:
        raise _no_layers(graph)
    progress(f"{len(layers)} layers, {len(runs)} runs of calibration data")
    # The model is already quantised, so it is the same for any set of layers.
    measurement = Measurement(
        floats, layers, lambda names: graph, runs, PlanSettings(max_error, min_gain, threads)
    )
    return measurement.as_it_is(Sensitivity(switched, runs), progress)


def _settings(given: dict[str, Any]) -> QuantizeSettings:
    if isinstance(given.get("floats"), str):
        given = {**given, "floats": [given["floats"]]}
    try:
        found = QuantizeSettings(**given)
    except TypeError:
        names = ", ".join(QuantizeSettings.__dataclass_fields__)
        unknown = next(name for name in given if name not in QuantizeSettings.__dataclass_fields__)
        raise InputError(f"there is no setting '{unknown}'", hint=f"there are {names}") from None
    _ = found.ranges
    return found


def _check_limits(max_error: float | None, min_gain: float) -> None:
    if max_error is not None and not max_error > 0:
        raise InputError(f"the maximum error must be above 0, not {max_error:g}")
    if not 0 <= min_gain < 1:
        raise InputError(f"a gain is a part of a layer's time from 0 to 1, not {min_gain:g}")


def _prepared(
    source: Source, data: Data, settings: QuantizeSettings, follow_links: bool
) -> _Prepared:
    graph = open_graph(source, follow_links=follow_links)
    present = integer_node(graph)
    if present is not None:
        raise InputError(
            f"the model is quantised already, it has {present.op_type}",
            where=present.name or present.op_type,
            hint="--report shows the error and the time saved by its layers",
        )
    samples = samples_of(data, declared_specs(graph.model)[0], settings.batch)
    names = graph.name_nodes()
    rewrite(graph, [FoldBatchNorm()])
    layers = layers_of(graph)
    if not layers:
        raise _no_layers(graph)
    unknown = sorted(set(settings.floats) - {layer.name for layer in layers})
    if unknown:
        raise InputError(f"there is no layer '{unknown[0]}' to be left in floats")
    layers = [layer for layer in layers if layer.name not in settings.floats]
    if not layers:
        raise _no_layers(graph)
    for layer in layers:
        _check_constants(graph, layer)
    return _Prepared(graph, layers, samples, names)


def _check_constants(graph: OnnxGraph, layer: QuantizableLayer) -> None:
    """Raise InputError if weights or the bias of a layer are not finite."""
    places = [layer.bias, None if layer.weight is None else layer.weight.place]
    for place in places:
        values = None if place is None else graph.array(layer.node.input[place])
        if place is not None and values is not None and not np.isfinite(values).all():
            name = layer.node.input[place]
            what = "NaN" if np.isnan(values).any() else "infinity"
            raise InputError(f"the weights '{name}' have {what}", where=layer.name)


def _calibrated(ready: _Prepared, settings: QuantizeSettings, progress: Progress) -> Realization:
    """Calibrate all layers, after equalisation and smoothing of the model if requested."""
    graph, names = ready.graph, {layer.name for layer in ready.layers}
    if settings.equalize:
        progress(f"{rewrite(graph, [EqualizeLayers()])} equalisations of pairs of layers")
    if settings.smooth is not None:
        progress(f"{smooth(graph, ready.samples, settings.smooth)} values smoothed")
    found = layers_of(graph, settings.behind)
    ready.layers = [layer for layer in found if layer.name in names]
    progress("calibration")
    methods = sorted(METHODS) if settings.method == BEST else [settings.method]
    activations = calibrate(graph, ready.layers, ready.samples, methods, settings.ranges)
    shifts = {}
    if settings.bias_correction:
        shifts = bias_shifts(graph, ready.layers, ready.samples, settings.weights)
    made = {
        method: Realization(parameters, settings.weights, shifts, settings.behind)
        for method, parameters in activations.items()
    }
    if len(made) == 1:
        return made[methods[0]]
    errors: dict[str, float] = {}
    samples = ready.samples[: settings.samples]
    for method, realization in made.items():
        measurement = _measurement(graph, ready.layers, realization, samples, PlanSettings())
        errors[method] = measurement.error(sorted(names))
        progress(f"error by {method}: {errors[method]:.3g}")
    return made[min(errors, key=lambda method: errors[method])]


def _measurement(
    graph: OnnxGraph,
    layers: Sequence[QuantizableLayer],
    realization: Realization,
    samples: Sequence[Feeds],
    settings: PlanSettings,
) -> Measurement:
    """Return a measurement that compares a float model with its quantised variants."""

    def made(chosen: Sequence[str]) -> OnnxGraph:
        return quantized(graph, chosen, realization)

    return Measurement(graph, layers, made, samples, settings)


def _no_layers(graph: OnnxGraph) -> UnsupportedError:
    other = [name for name in element_types(graph) if name != "float"]
    if other:
        return UnsupportedError(
            f"the model has no layer to quantise: its layers are of {', '.join(other)}",
            hint="export it in float32: only such layers are quantised",
        )
    return UnsupportedError(
        "the model has no layer to quantise",
        hint=f"layers are {', '.join(sorted(RULES))} on float32, with weights that are constants",
    )


def _none_pays(plan: QuantizationPlan, max_error: float | None) -> UnsupportedError:
    fast = [layer for layer in plan.layers if layer.saved_us > 0]
    what = "saves time in 8 bits"
    if fast and max_error is not None:
        what = f"saves time within an error of {max_error:g}"
    return UnsupportedError(
        f"of {len(plan.layers)} layers none {what}, so nothing is quantised",
        hint="--all quantises all layers, regardless of error and time",
    )


def write_model(model: ModelProto, place: str | Path) -> Path:
    """Write a model atomically.

    Raises:
        InputError: the path is not writable.
        UnsupportedError: the model is too large for one file.
    """
    if model.ByteSize() > MODEL_SIZE_LIMIT:
        raise UnsupportedError("the quantised model is larger than protobuf allows (2 GB)")
    with open_output(place) as stream:
        stream.write(model.SerializeToString())
    return Path(place)
