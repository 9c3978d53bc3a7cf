"""Resizing by interpolation, as ONNX defines it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    Coordinate,
    CoordinateAttr,
    Float,
    Floats,
    NearestMode,
    NearestModeAttr,
    ResizeMode,
    ResizeModeAttr,
    flag,
    floats,
    real,
)
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    is_float,
    shape_of,
    tensor,
)
from tcopt.dialects.te import api as te


@irdl_op_definition
class ResizeOp(GraphOp):
    """Interpolate x to the result's shape, axis by axis.

    `scales` (one per axis) defaults to result extent / operand extent. `roi` (starts, then ends,
    normalised) is used with `tf_crop_and_resize`, where coordinates outside x yield
    `extrapolation`. `cubic_a` is the cubic coefficient. With `exclude_outside`, elements outside x
    get weight 0 and the other weights are scaled to sum to 1.
    """

    name = "graph.resize"

    x = operand_def(TensorType)
    mode = prop_def(ResizeModeAttr, default_value=ResizeModeAttr(ResizeMode.NEAREST))
    coordinate = prop_def(CoordinateAttr, default_value=CoordinateAttr(Coordinate.HALF_PIXEL))
    nearest_mode = prop_def(
        NearestModeAttr, default_value=NearestModeAttr(NearestMode.ROUND_PREFER_FLOOR)
    )
    scales = opt_prop_def(Floats)
    roi = opt_prop_def(Floats)
    cubic_a = prop_def(Float, default_value=real(-0.75))
    exclude_outside = opt_prop_def(UnitAttr)
    extrapolation = prop_def(Float, default_value=real(0.0))
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        scales: Sequence[float] | None = None,
        sizes: Sequence[int] | None = None,
        mode: str = "nearest",
        coordinate: str = "half_pixel",
        nearest_mode: str = "round_prefer_floor",
        roi: Sequence[float] | None = None,
        cubic_a: float = -0.75,
        exclude_outside: bool = False,
        extrapolation: float = 0.0,
    ):
        """Without `sizes`, the result's extents are floor(extent * scale)."""
        value = SSAValue.get(x)
        shape = shape_of(value)
        if sizes is None:
            if scales is None or len(scales) != len(shape):
                raise VerifyException(f"resize needs scales or sizes for {len(shape)} axes")
            sizes = [math.floor(n * scale) for n, scale in zip(shape, scales, strict=True)]
        super().__init__(
            [value],
            {
                "mode": ResizeModeAttr(ResizeMode(mode)),
                "coordinate": CoordinateAttr(Coordinate(coordinate)),
                "nearest_mode": NearestModeAttr(NearestMode(nearest_mode)),
                "scales": None if scales is None else floats(scales),
                "roi": None if roi is None else floats(roi),
                "cubic_a": real(cubic_a),
                "exclude_outside": flag(exclude_outside),
                "extrapolation": real(extrapolation),
            },
            tensor(sizes, element_type(value)),
        )
        self.infer()

    def infer(self) -> Sequence[AnyTensor]:
        """Return the result's shape with the operand's element type."""
        rank = len(shape_of(self.x))
        if len(self.shape) != rank:
            raise VerifyException(f"{self.x.type} and {self.type} differ in rank")
        if self.scales is not None and (
            len(self.scales) != rank or min(self.scales.get_values(), default=1.0) <= 0
        ):
            raise VerifyException(f"scales must be {rank} positive numbers")
        crop = self.coordinate.data is Coordinate.TF_CROP_AND_RESIZE
        if crop and (self.roi is None or len(self.roi) != 2 * rank):
            raise VerifyException(f"tf_crop_and_resize needs a roi of {2 * rank} numbers")
        if min(self.shape, default=1) and not min(shape_of(self.x), default=1):
            raise VerifyException("an empty operand cannot be resized")
        if self.mode.data is not ResizeMode.NEAREST and not is_float(element_type(self.x)):
            raise VerifyException(f"{self.mode.data} interpolation expects floats")
        return (tensor(self.shape, element_type(self.x)),)

    def axis_scales(self) -> tuple[float, ...]:
        """Return the scale of each axis."""
        if self.scales is not None:
            return self.scales.get_values()
        return tuple(new / old for new, old in zip(self.shape, shape_of(self.x), strict=True))

    def resized_axes(self) -> tuple[int, ...]:
        """Return the axes along which the result differs from the operand."""
        crop = self.coordinate.data is Coordinate.TF_CROP_AND_RESIZE
        roi = () if self.roi is None else self.roi.get_values()
        rank = len(self.shape)
        return tuple(
            axis
            for axis, (old, new, scale) in enumerate(
                zip(shape_of(self.x), self.shape, self.axis_scales(), strict=True)
            )
            if old != new or scale != 1 or (crop and (roi[axis], roi[axis + rank]) != (0.0, 1.0))
        )

    def coordinates(self, axis: int) -> Array:
        """Return the input coordinate of each output index along an axis."""
        old, new, scale = shape_of(self.x)[axis], self.shape[axis], self.axis_scales()[axis]
        places = np.arange(new, dtype=np.float64)
        match self.coordinate.data:
            case Coordinate.HALF_PIXEL:
                return (places + 0.5) / scale - 0.5
            case Coordinate.PYTORCH_HALF_PIXEL:
                return (places + 0.5) / scale - 0.5 if new > 1 else places * 0
            case Coordinate.HALF_PIXEL_SYMMETRIC:
                offset = old / 2 * (1 - new / (scale * old))
                return offset + (places + 0.5) / scale - 0.5
            case Coordinate.ALIGN_CORNERS:
                # This agrees with onnxruntime and PyTorch. ONNX's reference has `scale * old`
                # instead of `new`, so that with a rounded extent the result does not end at the
                # corner.
                return places * (old - 1) / (new - 1) if new > 1 else places * 0
            case Coordinate.ASYMMETRIC:
                return places / scale
            case Coordinate.TF_HALF_PIXEL_FOR_NN:
                return (places + 0.5) / scale
            case Coordinate.TF_CROP_AND_RESIZE:
                return self._crop_coordinates(axis, places)

    def _crop_coordinates(self, axis: int, places: Array) -> Array:
        roi = () if self.roi is None else self.roi.get_values()
        start, end = roi[axis], roi[axis + len(self.shape)]
        old, new = shape_of(self.x)[axis], self.shape[axis]
        if new == 1:
            return places * 0 + 0.5 * (start + end) * (old - 1)
        return start * (old - 1) + places * (end - start) * (old - 1) / (new - 1)

    def nearest(self, axis: int) -> Array:
        """Return the input index of each output index along an axis, in nearest mode."""
        place = self.coordinates(axis)
        match self.nearest_mode.data:
            case NearestMode.ROUND_PREFER_FLOOR:
                place = np.ceil(place - 0.5)
            case NearestMode.ROUND_PREFER_CEIL:
                place = np.floor(place + 0.5)
            case NearestMode.FLOOR:
                place = np.floor(place)
            case NearestMode.CEIL:
                place = np.ceil(place)
        return np.clip(place, 0, shape_of(self.x)[axis] - 1).astype(np.int64)

    def taps(self, axis: int) -> list[tuple[Array, Array]]:
        """Return the input indices and weights that are summed for each output index along an
        axis."""
        place = self.coordinates(axis)
        old = shape_of(self.x)[axis]
        first = np.floor(place)
        part = place - first
        if self.mode.data is ResizeMode.LINEAR:
            pairs = [(first, 1 - part), (first + 1, part)]
        else:
            pairs = [
                (first + k, cubic_weight(np.abs(part - k), self.cubic_a.value.data))
                for k in range(-1, 3)
            ]
        if self.exclude_outside is not None:
            pairs = [(i, np.where((i < 0) | (i >= old), 0, w)) for i, w in pairs]
            total = np.sum([w for _, w in pairs], axis=0)
            pairs = [(i, w / total) for i, w in pairs]
        return [(np.clip(i, 0, old - 1).astype(np.int64), w) for i, w in pairs]

    def outside(self, axis: int) -> Array:
        """Return, for each output index along an axis, whether it takes the extrapolation value."""
        place = self.coordinates(axis)
        if self.coordinate.data is not Coordinate.TF_CROP_AND_RESIZE:
            return np.zeros(place.shape, np.bool_)
        return (place < 0) | (place > shape_of(self.x)[axis] - 1)

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if no axis is resized."""
        return None if self.resized_axes() else self.x

    def compute(self, x: Array) -> Array:
        """Evaluate with numpy, interpolating along one axis after the other."""
        axes = self.resized_axes()
        for axis in axes:
            if self.mode.data is ResizeMode.NEAREST:
                x = np.take(x, self.nearest(axis), axis)
                continue
            weights = np.zeros((self.shape[axis], x.shape[axis]), x.dtype)
            for index, weight in self.taps(axis):
                np.add.at(weights, (np.arange(self.shape[axis]), index), weight)
            x = np.moveaxis(np.moveaxis(x, axis, -1) @ weights.T, -1, axis)
        for axis in axes:
            shape = [1] * x.ndim
            shape[axis] = -1
            outside = self.outside(axis).reshape(shape)
            x = np.where(outside, x.dtype.type(self.extrapolation.value.data), x)
        return x

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one interpolation stage for each axis, and one for elements outside x."""
        axes = self.resized_axes()
        # Shrink axes before growing others, for few elements; among these, inner axes first, for
        # long rows.
        for axis in sorted(axes, key=lambda a: (self.shape[a] > x.shape[a], -a)):
            if self.mode.data is ResizeMode.NEAREST:
                x = self._nearest_stage(x, axis)
            else:
                x = self._interpolation_stage(x, axis)
        outside = [axis for axis in axes if self.outside(axis).any()]
        if axes and not outside:
            return x
        last = x

        def body(*at: te.Axis) -> te.Expr:
            value = last[at]
            if not outside:
                return value
            tests = [self._outside_test(axis, at[axis]) for axis in outside]
            return te.select(
                te.any(*tests), te.const(self.extrapolation.value.data, x.dtype), value
            )

        return te.compute(self.shape, body, name="resize")

    def _stage(self, x: te.Tensor, axis: int, body: Callable[[te.Axis, Any], te.Expr]) -> te.Tensor:
        """Return a stage that resizes one axis of x; `body` is called with the axis and a reader
        along it."""
        shape = (*x.shape[:axis], self.shape[axis], *x.shape[axis + 1 :])

        def element(*at: te.Axis) -> te.Expr:
            def read(place: Any) -> te.Expr:
                return x[(*at[:axis], place, *at[axis + 1 :])]

            return body(at[axis], read)

        return te.compute(shape, element, name=f"resize{axis}")

    def _nearest_stage(self, x: te.Tensor, axis: int) -> te.Tensor:
        affine = fit_division(self.nearest(axis), 1 / self.axis_scales()[axis])
        if affine is not None:
            scale, offset, divisor = affine
            return self._stage(x, axis, lambda at, read: read((at * scale + offset) // divisor))

        def body(at: te.Axis, read: Any) -> te.Expr:
            place = self._te_coordinate(axis, at, "f64")
            half = te.const(0.5, place.dtype)
            match self.nearest_mode.data:
                case NearestMode.ROUND_PREFER_FLOOR:
                    place = te.ceil(place - half)
                case NearestMode.ROUND_PREFER_CEIL:
                    place = te.floor(place + half)
                case NearestMode.FLOOR:
                    place = te.floor(place)
                case NearestMode.CEIL:
                    place = te.ceil(place)
            return read(te.index(_clamped(place, x.shape[axis])))

        return self._stage(x, axis, body)

    def _interpolation_stage(self, x: te.Tensor, axis: int) -> te.Tensor:
        """Return a weighted sum of taps, with tables for weights, and for indices that are not a
        division."""
        place = self.coordinates(axis)
        first = np.clip(np.floor(place), -_FAR, _FAR).astype(np.int64)
        division = None
        if axis == len(x.shape) - 1 and self._has_tap_inside(first, x.shape[axis]):
            division = fit_division(first, 1 / self.axis_scales()[axis])
        if division is None:
            return self._sum_of_places(x, axis)
        return self._sum_by_division(x, axis, *division)

    def _has_tap_inside(self, first: Array, extent: int) -> bool:
        """Whether the taps of every output overlap the axis, so that the edge is a tap if others
        are out of bounds."""
        taps = self._tap_offsets()
        return bool(np.all((first + taps[-1] >= 0) & (first + taps[0] < extent)))

    def _tap_offsets(self) -> range:
        """Return the offsets of taps from the floor of the coordinate."""
        return range(-1, 3) if self.mode.data is ResizeMode.CUBIC else range(2)

    def _sum_by_division(
        self, x: te.Tensor, axis: int, scale: int, offset: int, divisor: int
    ) -> te.Tensor:
        """Return a sum of taps at quotients.

        Taps out of bounds read zero, and the edge gets their weight. Adjacent results read adjacent
        elements, which permits vectors along the axis.
        """
        extent, taps = x.shape[axis], self._tap_offsets()

        def quotient(at: te.Axis) -> Any:
            return (at * scale + offset) // divisor

        def weight(tap: int, at: te.Axis) -> te.Expr:
            place = self._te_coordinate(axis, at, "f32")
            first = te.cast(quotient(at), place.dtype)
            weights = self._tap_weights(first, place - first, extent)
            if self.exclude_outside is not None:
                return weights[tap - taps[0]]
            zero = te.const(0.0, place.dtype)
            before = sum(weights[: tap - taps[0]], zero)
            behind = sum(weights[tap - taps[0] + 1 :], zero)
            source = first + te.const(tap, place.dtype)
            total = weights[tap - taps[0]]
            total = total + te.select(te.all(source >= 0.0, source < 1.0), before, zero)
            last = float(extent - 1)
            total = total + te.select(te.all(source >= last, source < last + 1), behind, zero)
            return te.select(te.all(source >= 0.0, source <= last), total, zero)

        size = (self.shape[axis],)
        tables = [te.compute(size, partial(weight, tap), name=f"weight{axis}") for tap in taps]
        shape = (*x.shape[:axis], self.shape[axis], *x.shape[axis + 1 :])

        def element(*at: te.Axis) -> te.Expr:
            here = at[axis]
            total = te.const(0.0, "f32")
            for tap, table in zip(taps, tables, strict=True):
                source = (*at[:axis], quotient(here) + tap, *at[axis + 1 :])
                total = total + table[here] * te.cast(x.read(source, default=0.0), total.dtype)
            return te.cast(total, x.dtype)

        return te.compute(shape, element, name=f"resize{axis}")

    def _sum_of_places(self, x: te.Tensor, axis: int) -> te.Tensor:
        """Return a sum of taps at computed indices, clamped to the axis."""
        extent, taps = x.shape[axis], self._tap_offsets()

        def split(at: te.Axis) -> tuple[te.Expr, te.Expr]:
            place = self._te_coordinate(axis, at, "f32")
            first = te.floor(place)
            return first, place - first

        def weight(tap: int, at: te.Axis) -> te.Expr:
            return self._tap_weights(*split(at), extent)[tap - taps[0]]

        def source(tap: int, at: te.Axis) -> te.Expr:
            first, _ = split(at)
            return _clamped(first + te.const(tap, first.dtype), extent)

        size = (self.shape[axis],)
        weights = [te.compute(size, partial(weight, tap), name=f"weight{axis}") for tap in taps]
        sources = [te.compute(size, partial(source, tap), name=f"place{axis}") for tap in taps]

        def body(at: te.Axis, read: Any) -> te.Expr:
            total = te.const(0.0, "f32")
            for place, table in zip(sources, weights, strict=True):
                value = te.cast(read(te.index(place[at])), total.dtype)
                total = total + table[at] * value
            return te.cast(total, x.dtype)

        return self._stage(x, axis, body)

    def _tap_weights(self, first: te.Expr, part: te.Expr, extent: int) -> list[te.Expr]:
        """Return the weight of each tap; with `exclude_outside`, out-of-bounds taps have weight
        0."""
        taps, dtype = self._tap_offsets(), part.dtype
        if self.mode.data is ResizeMode.CUBIC:
            a = self.cubic_a.value.data
            weights = [_te_cubic(te.abs(part - tap), a) for tap in taps]
        else:
            weights = [1.0 - part, part]
        if self.exclude_outside is None:
            return weights
        zero = te.const(0.0, dtype)
        for position, tap in enumerate(taps):
            source = first + te.const(tap, dtype)
            inside = te.all(source >= 0.0, source <= float(extent - 1))
            weights[position] = te.select(inside, weights[position], zero)
        norm = sum(weights, zero)
        return [weight / norm for weight in weights]

    def _te_coordinate(self, axis: int, at: te.Axis, dtype: str) -> te.Expr:
        """Return the input coordinate of an output index, with the formulas of `coordinates`."""
        place = te.cast(at, dtype)
        old, new, scale = shape_of(self.x)[axis], self.shape[axis], self.axis_scales()[axis]

        def number(value: float) -> te.Expr:
            return te.const(value, dtype)

        match self.coordinate.data:
            case Coordinate.ASYMMETRIC:
                return place / number(scale)
            case Coordinate.TF_HALF_PIXEL_FOR_NN:
                return (place + number(0.5)) / number(scale)
            case Coordinate.HALF_PIXEL:
                return (place + number(0.5)) / number(scale) - number(0.5)
            case Coordinate.HALF_PIXEL_SYMMETRIC:
                offset = old / 2 * (1 - new / (scale * old))
                return number(offset) + (place + number(0.5)) / number(scale) - number(0.5)
            case Coordinate.PYTORCH_HALF_PIXEL:
                if new == 1:
                    return number(0)
                return (place + number(0.5)) / number(scale) - number(0.5)
            case Coordinate.ALIGN_CORNERS:
                if new == 1:
                    return number(0)
                return place * number(old - 1) / number(new - 1)
            case Coordinate.TF_CROP_AND_RESIZE:
                roi = () if self.roi is None else self.roi.get_values()
                start, end = roi[axis], roi[axis + len(self.shape)]
                if new == 1:
                    return number(0.5 * (start + end) * (old - 1))
                slope = number((end - start) * (old - 1))
                return number(start * (old - 1)) + place * slope / number(new - 1)

    def _outside_test(self, axis: int, at: te.Axis) -> te.Expr:
        place = self._te_coordinate(axis, at, "f64")
        return te.any(place < 0.0, place > float(shape_of(self.x)[axis] - 1))


_FAR = 2**40
"""Limit to which coordinates are clamped; all beyond it are far out of bounds."""


def cubic_weight(distance: Array, a: float) -> Array:
    """Return the weight of an element at a distance from the coordinate, in cubic interpolation."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _te_cubic(distance: te.Expr, a: float) -> te.Expr:
    square = distance * distance
    near = ((a + 2) * distance - (a + 3)) * square + 1.0
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    zero = te.const(0.0, distance.dtype)
    return te.select(distance <= 1.0, near, te.select(distance < 2.0, far, zero))


def _clamped(place: te.Expr, extent: int) -> te.Expr:
    """Convert an integral float to an integer, clamped to an axis."""
    return te.saturate(place, 0, extent - 1, "i32")


_LARGEST_NUMBER = 1 << 40


def fit_division(table: Array, slope: float) -> tuple[int, int, int] | None:
    """Return small (a, b, c) with table[i] == (i * a + b) // c for every i; None if there are
    none."""
    ratio = Fraction(slope).limit_denominator(1 << 12)
    a, c = ratio.numerator, ratio.denominator
    if not table.size or abs(a) * table.size > _LARGEST_NUMBER:
        return None
    places = np.arange(table.size)
    for factor in (1, 2):
        scaled = places * a * factor
        divisor = c * factor
        # b must satisfy table * divisor <= scaled + b < (table + 1) * divisor everywhere.
        low = int(np.max(table * divisor - scaled, initial=-_LARGEST_NUMBER))
        high = int(np.min((table + 1) * divisor - scaled, initial=_LARGEST_NUMBER))
        if low < high:
            return a * factor, low, divisor
    return None
