"""Quantisation plan: selects layers by the error that they add and the time that they save."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

ErrorOf = Callable[[Collection[str]], float]

_POINTS = 12
"""Number of points on the curve of error against time."""

QUANTIZED, SLOWER, ERROR = "8 bits", "float: saves no time", "float: adds too much error"


@dataclass(frozen=True)
class LayerPlan:
    """Measurements of one layer, and the decision about it.

    Attributes:
        error: relative error at the model's output if only this layer is quantised.
        sqnr_db: signal-to-noise ratio of the layer's own result in that case.
        float_us, int8_us: microseconds of the layer and the nodes attributed to it.
        verdict: whether it is quantised, or why not.
    """

    name: str
    operator: str
    error: float = 0.0
    sqnr_db: float = 0.0
    float_us: float = 0.0
    int8_us: float = 0.0
    verdict: str = QUANTIZED

    @property
    def saved_us(self) -> float:
        """Microseconds saved by using 8 bits."""
        return self.float_us - self.int8_us

    @property
    def gain(self) -> float:
        """Fraction of the layer's time saved by using 8 bits."""
        return self.saved_us / self.float_us if self.float_us > 0 else 0.0

    @property
    def is_quantized(self) -> bool:
        return self.verdict == QUANTIZED


@dataclass(frozen=True)
class SelectionCost:
    """A selection of layers: the error at the output, and the estimated milliseconds."""

    layers: int
    error: float
    time_ms: float


@dataclass(frozen=True)
class QuantizationPlan:
    """A selection of layers, with the measurements that it is based on.

    Attributes:
        layers: all layers, in the model's order.
        error: relative error of the selection on the calibration data.
        curve: selections from all profitable layers to none.
        chosen: estimates for the selection made.
        float_ms, quantized_ms: times of the float model and the selection, measured in interleaved
            runs; None if not measured.
    """

    layers: Sequence[LayerPlan]
    error: float
    curve: Sequence[SelectionCost] = ()
    chosen: SelectionCost | None = None
    float_ms: float | None = None
    quantized_ms: float | None = None
    notes: Sequence[str] = field(default_factory=list[str])

    @property
    def quantized(self) -> list[str]:
        """Names of the layers in 8 bits."""
        return [layer.name for layer in self.layers if layer.is_quantized]


@dataclass(frozen=True)
class Selection:
    """A selection of layers, with the verdict on each layer and alternative selections."""

    verdicts: Mapping[str, str]
    curve: Sequence[SelectionCost]
    chosen: SelectionCost


def choose(
    layers: Sequence[LayerPlan],
    error_of: ErrorOf,
    total_ms: float,
    *,
    max_error: float | None = None,
    min_gain: float = 0.0,
) -> Selection:
    """Select the layers to quantise.

    Layers that save too little time stay in floats. Of the others, those with the highest error per
    time saved are dropped, until the error of the remaining set is small enough. Errors of sets are
    measured, not added up.

    Args:
        error_of: returns the error at the output for a set of layers.
        total_ms: time of the float model.
        max_error: maximum relative error; by default unlimited.
        min_gain: minimum fraction of its time that a layer must save.
    """
    paying = [layer for layer in layers if layer.saved_us > 0 and layer.gain >= min_gain]
    order = sorted(paying, key=lambda layer: -(layer.error**2) / max(layer.saved_us, 1e-9))
    errors: dict[int, float] = {}

    def error(removed: int) -> float:
        if removed not in errors:
            left = [layer.name for layer in order[removed:]]
            errors[removed] = error_of(left) if left else 0.0
        return errors[removed]

    removed = 0
    if max_error is not None and error(0) > max_error:
        low, high = 0, len(order)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if error(middle) <= max_error else (middle, high)
        removed = high
    left = {layer.name for layer in order[removed:]}
    names = {layer.name for layer in paying}

    def point(count: int) -> SelectionCost:
        saved = sum(layer.saved_us for layer in order[count:]) / 1e3
        return SelectionCost(len(order) - count, error(count), total_ms - saved)

    steps = {round(n * len(order) / _POINTS) for n in range(_POINTS + 1)} | {removed}
    verdicts = {
        layer.name: QUANTIZED if layer.name in left else (ERROR if layer.name in names else SLOWER)
        for layer in layers
    }
    return Selection(verdicts, [point(count) for count in sorted(steps)], point(removed))
