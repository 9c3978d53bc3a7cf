"""The plan: which layers are quantised, by what they add to the error and what they save."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

ErrorOf = Callable[[Collection[str]], float]

_POINTS = 12
"""Of the curve of error against time."""

QUANTIZED, SLOWER, ERROR = "8 bits", "float: saves no time", "float: adds too much error"


@dataclass(frozen=True)
class LayerPlan:
    """One layer.

    Attributes:
        error: at the model's output where only this layer is quantised, relative.
        sqnr_db: signal to noise of its own result then.
        float_us, int8_us: what it takes with all that goes with it, microseconds.
        verdict: what becomes of it, and why.
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
        """Microseconds that 8 bits save."""
        return self.float_us - self.int8_us

    @property
    def gain(self) -> float:
        """The part of its time that 8 bits save."""
        return self.saved_us / self.float_us if self.float_us > 0 else 0.0

    @property
    def is_quantized(self) -> bool:
        return self.verdict == QUANTIZED


@dataclass(frozen=True)
class Point:
    """A choice of layers: the error at the output, and the milliseconds expected."""

    layers: int
    error: float
    time_ms: float


@dataclass(frozen=True)
class Plan:
    """A choice of layers, and what it was made from.

    Attributes:
        layers: all, in the model's order.
        error: relative, of the model as it was chosen, on the calibration data.
        curve: choices from all layers that pay to none.
        chosen: what was expected of the choice.
        float_ms, quantized_ms: measured in turns, of the model in floats and as chosen; None if
            nothing was measured.
    """

    layers: Sequence[LayerPlan]
    error: float
    curve: Sequence[Point] = ()
    chosen: Point | None = None
    float_ms: float | None = None
    quantized_ms: float | None = None
    notes: Sequence[str] = field(default_factory=list[str])

    @property
    def quantized(self) -> list[str]:
        """The layers in 8 bits."""
        return [layer.name for layer in self.layers if layer.is_quantized]


@dataclass(frozen=True)
class Choice:
    """Layers chosen, with the verdict on each, and choices between all and none."""

    verdicts: Mapping[str, str]
    curve: Sequence[Point]
    chosen: Point


def choose(
    layers: Sequence[LayerPlan],
    error_of: ErrorOf,
    total_ms: float,
    *,
    max_error: float | None = None,
    min_gain: float = 0.0,
) -> Choice:
    """Choose layers.

    Those that save too little time stay in floats. Of the others, those that add most error for
    the time that they save go first, until the error of all that is left is small enough; errors
    of sets are measured, not added up.

    Args:
        error_of: the error at the output of a set of layers.
        total_ms: what the model takes in floats.
        max_error: the error that is accepted, relative; by default any.
        min_gain: the part of its time that a layer has to save.
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

    def point(count: int) -> Point:
        saved = sum(layer.saved_us for layer in order[count:]) / 1e3
        return Point(len(order) - count, error(count), total_ms - saved)

    steps = {round(n * len(order) / _POINTS) for n in range(_POINTS + 1)} | {removed}
    verdicts = {
        layer.name: QUANTIZED if layer.name in left else (ERROR if layer.name in names else SLOWER)
        for layer in layers
    }
    return Choice(verdicts, [point(count) for count in sorted(steps)], point(removed))
