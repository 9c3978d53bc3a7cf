"""Interpolation at computed coordinates, for grid sampling and deformable convolution."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    FusionKind,
    ResizeMode,
    ResizeModeAttr,
    SamplePadding,
    SamplePaddingAttr,
    flag,
)
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import widen
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    shape_of,
    tensor,
)
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed

# Parameter of the cubic convolution kernel (R. Keys, Cubic Convolution Interpolation for Digital
# Image Processing, 1981), with the value of ONNX's GridSample.
_CUBIC_A = -0.75

_TAPS = {ResizeMode.NEAREST: (0,), ResizeMode.LINEAR: (0, 1), ResizeMode.CUBIC: (-1, 0, 1, 2)}


@irdl_op_definition
class SampleOp(GraphOp):
    """x [N, C, spatial...] interpolated at coordinates [N, R, out...]: a result [N, C, out...].

    places[n, d] holds coordinates, in elements, along dimension d of the R spatial dimensions.
    Outside x, elements are zeros, the border elements, or x reflected: at the centres of its border
    elements, or with `half_border` half an element further out. With `channels_last`, x is
    [N, spatial..., C] and the result [N, out..., C], so that the elements of a tap are contiguous.
    """

    name = "graph.sample"

    x = operand_def(TensorType)
    places = operand_def(TensorType)
    mode = prop_def(ResizeModeAttr, default_value=ResizeModeAttr(ResizeMode.LINEAR))
    padding = prop_def(SamplePaddingAttr, default_value=SamplePaddingAttr(SamplePadding.ZEROS))
    half_border = opt_prop_def(UnitAttr)
    channels_last = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        places: SSAValue | Operation,
        *,
        mode: str = "linear",
        padding: str = "zeros",
        half_border: bool = False,
        channels_last: bool = False,
    ):
        super().__init__(
            [x, places],
            {
                "mode": ResizeModeAttr(ResizeMode(mode)),
                "padding": SamplePaddingAttr(SamplePadding(padding)),
                "half_border": flag(half_border),
                "channels_last": flag(channels_last),
            },
        )

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, C, out...], or the equivalent with channels last."""
        shape, places = shape_of(self.x), shape_of(self.places)
        rank = len(shape) - 2
        if rank < 1 or len(places) < 2 or places[:2] != (shape[0], rank):
            raise VerifyException(f"{self.places.type} does not hold coordinates in {self.x.type}")
        if not is_float(element_type(self.places)):
            raise VerifyException(f"coordinates must be floats, got {element_type(self.places)}")
        if 0 in self._spatial(shape):
            raise VerifyException(f"{self.x.type} has no elements to interpolate")
        if self.channels_last is not None:
            return (tensor((shape[0], *places[2:], shape[-1]), element_type(self.x)),)
        return (tensor((*shape[:2], *places[2:]), element_type(self.x)),)

    def _spatial(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the spatial extents of x."""
        return shape[1:-1] if self.channels_last is not None else shape[2:]

    @property
    def fusion_kind(self) -> FusionKind:
        """Fusion kind: opaque with channels last, because fusion would change the order of
        computation."""
        return FusionKind.OPAQUE if self.channels_last is not None else FusionKind.INJECTIVE

    def work(self) -> int:
        """Return the operation count: a few operations for each tap."""
        taps = len(_TAPS[self.mode.data]) ** (len(shape_of(self.x)) - 2)
        return super().work() * 4 * taps

    def _border(self, extent: int) -> tuple[float, float]:
        half = 0.5 if self.half_border is not None else 0.0
        return -half, extent - 1 + half

    def compute(self, x: Array, places: Array) -> Array:
        """Evaluate the op with numpy."""
        if self.channels_last is None:
            x = np.moveaxis(x, 1, -1)
        spatial, wide = x.shape[1:-1], np.result_type(places.dtype, np.float32)
        taps: list[list[tuple[Array, Array, Array]]] = []
        for d, extent in enumerate(spatial):
            at = self._inside(np.asarray(places[:, d], wide), extent)
            taps.append([self._numpy_tap(at, tap, extent) for tap in _TAPS[self.mode.data]])
        images: Array = np.arange(len(x))
        batch = images.reshape(-1, *[1] * (places.ndim - 2))
        result = np.zeros((x.shape[0], *places.shape[2:], x.shape[-1]), wide)
        for chosen in itertools.product(*taps):
            index = tuple(place for place, _, _ in chosen)
            value = x[(batch, *index)].astype(wide)
            weight = np.ones(places.shape[:1] + places.shape[2:], wide)
            for _, inside, factor in chosen:
                weight = weight * factor
                value = np.where(inside[..., None], value, 0)
            result += value * weight[..., None]
        return result if self.channels_last is not None else np.moveaxis(result, -1, 1)

    def _inside(self, at: Array, extent: int) -> Array:
        low, high = self._border(extent)
        outside = (at < low) | (at > high)
        match self.padding.data:
            case SamplePadding.BORDER if self.mode.data is not ResizeMode.CUBIC:
                return np.where(outside, np.clip(at, 0, extent - 1), at)
            case SamplePadding.REFLECTION:
                return np.where(outside, _reflected(at, low, high), at)
            case _:
                return at

    def _border_values(self, extent: int, dtype: Attribute) -> tuple[float, float | te.Expr]:
        """Return the borders as numbers; the upper one as an expression if the extent is a size."""
        if is_fixed((extent,)):
            return self._border(extent)
        low, _ = self._border(0)
        return low, te.const(extent - 1, dtype) - low

    def _numpy_tap(self, at: Array, tap: int, extent: int) -> tuple[Array, Array, Array]:
        """Return a tap's index in the data, whether it is in bounds, and its weight."""
        nearest = self.mode.data is ResizeMode.NEAREST
        base = np.rint(at) if nearest else np.floor(at)
        fraction = at - base
        base = np.clip(np.nan_to_num(base, nan=-9.0), -8, extent + 8)
        place = base + tap
        inside = (place >= 0) & (place < extent)
        match self.padding.data:
            case SamplePadding.BORDER:
                inside = np.ones_like(inside)
            case SamplePadding.REFLECTION:
                low, high = self._border(extent)
                place = np.where(inside, place, np.trunc(_reflected(place, low, high)))
                inside = np.ones_like(inside)
            case _:
                pass
        index = np.clip(place, 0, extent - 1).astype(np.int64)
        return index, inside, np.ones_like(at) if nearest else self._weight(fraction, tap)

    def _weight(self, fraction: Any, tap: int) -> Any:
        """Return the weight of a tap, for arrays or expressions."""
        if self.mode.data is ResizeMode.LINEAR:
            return fraction if tap == 1 else 1.0 - fraction
        a = _CUBIC_A
        match tap:
            case -1:
                t = fraction + 1.0
                return ((t * a - 5 * a) * t + 8 * a) * t - 4 * a
            case 0:
                return (fraction * (a + 2) - (a + 3)) * fraction * fraction + 1.0
            case 1:
                t = 1.0 - fraction
                return (t * (a + 2) - (a + 3)) * t * t + 1.0
            case _:
                t = 2.0 - fraction
                return ((t * a - 5 * a) * t + 8 * a) * t - 4 * a

    def tensor_expression(self, x: te.Tensor, places: te.Tensor) -> te.Tensor:
        """Return one stage: a weighted sum of the taps around the coordinate."""
        element = self.type.element_type

        last = self.channels_last is not None

        def body(n: te.Axis, *axes: te.Axis) -> te.Expr:
            *out, c = axes if last else (*axes[1:], axes[0])
            taps: list[list[tuple[te.Index, te.Expr | None]]] = []
            for d, extent in enumerate(self._spatial(x.shape)):
                at = self._placed(widen(places[(n, d, *out)]), extent)
                taps.append([self._tap(at, tap, extent) for tap in _TAPS[self.mode.data]])
            total: te.Expr | None = None
            for chosen in itertools.product(*taps):
                index = tuple(place for place, _ in chosen)
                at = (n, *index, c) if last else (n, c, *index)
                value = widen(x.read(at, default=0))
                for _, factor in chosen:
                    value = value if factor is None else value * te.cast(factor, value.dtype)
                total = value if total is None else total + value
            assert total is not None
            return te.cast(total, element)

        return te.compute(self.shape, body, name="sample")

    def _placed(self, at: te.Expr, extent: int) -> te.Expr:
        low, high = self._border_values(extent, at.dtype)
        outside = te.any(at < low, at > high)
        match self.padding.data:
            case SamplePadding.BORDER if self.mode.data is not ResizeMode.CUBIC:
                clipped = te.minimum(te.maximum(at, 0.0), te.const(extent - 1, at.dtype))
                return te.select(outside, clipped, at)
            case SamplePadding.REFLECTION:
                return te.select(outside, _reflected_expr(at, low, high), at)
            case _:
                return at

    def _tap(self, at: te.Expr, tap: int, extent: int) -> tuple[te.Index, te.Expr | None]:
        """Return a tap's index, and its weight unless that is 1."""
        nearest = self.mode.data is ResizeMode.NEAREST
        base = te.round(at) if nearest else te.floor(at)
        fraction = at - base
        # Clamp coordinates far out of bounds, and nan, so that they fit an integer.
        far = te.const(-8.0, base.dtype)
        base = te.minimum(te.select(base > far, base, far), te.const(extent + 8, base.dtype))
        place = base + float(tap) if tap else base
        match self.padding.data:
            case SamplePadding.BORDER:
                place = te.minimum(te.maximum(place, 0.0), te.const(extent - 1, place.dtype))
            case SamplePadding.REFLECTION:
                low, high = self._border_values(extent, place.dtype)
                outside = te.any(place < 0.0, place > te.const(extent - 1, place.dtype))
                place = te.select(outside, te.trunc(_reflected_expr(place, low, high)), place)
            case _:
                pass
        index = te.index(te.cast(place, "i32"))
        return index, None if nearest else self._weight(fraction, tap)


def _reflected(at: Array, low: float, high: float) -> Array:
    """Reflect coordinates at two borders until they are in between."""
    span = high - low
    if span == 0:
        return np.full_like(at, low)
    rest = np.fmod(np.abs(at - low), 2 * span)
    return low + np.where(rest > span, 2 * span - rest, rest)


def _reflected_expr(at: te.Expr, low: float, high: float | te.Expr) -> te.Expr:
    if isinstance(high, te.Expr):
        # A span that depends on a size may be 0.
        return te.select(
            high > low, _reflected_within(at, low, high - low), te.const(low, at.dtype)
        )
    if high == low:
        return te.const(low, at.dtype)
    return _reflected_within(at, low, high - low)


def _reflected_within(at: te.Expr, low: float, span: float | te.Expr) -> te.Expr:
    distance = te.abs(at - low)
    # Inexact only if there are more periods than a coordinate has fractional bits.
    rest = distance - te.trunc(distance / (2 * span)) * (2 * span)
    return te.select(rest > span, 2 * span - rest, rest) + low
