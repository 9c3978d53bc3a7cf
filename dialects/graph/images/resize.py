"""Resizing by interpolation, as ONNX defines it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import starmap
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
from tcopt.dialects.graph.images.resize_positions import (
    FAR,
    Division,
    at_least_one,
    clamped,
    constant_ratio,
    cubic_weight,
    fit_division,
    floor_positions,
    is_below,
    te_cubic_weight,
    times,
    unless_single,
)
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed, lower_bound, upper_bound
from tcopt.support.errors import UndecidedSize


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
        if 0 not in self.shape and 0 in shape_of(self.x):
            raise VerifyException("an empty operand cannot be resized")
        if self.mode.data is not ResizeMode.NEAREST and not is_float(element_type(self.x)):
            raise VerifyException(f"{self.mode.data} interpolation expects floats")
        return (tensor(self.shape, element_type(self.x)),)

    def axis_scales(self) -> tuple[float | None, ...]:
        """Return the scale of each axis; None for a ratio of sizes that is not constant."""
        if self.scales is not None:
            return self.scales.get_values()
        return tuple(starmap(constant_ratio, zip(self.shape, shape_of(self.x), strict=True)))

    def fixed_scale(self, axis: int) -> float:
        """Return the scale of an axis.

        Raises:
            UndecidedSize: it is a ratio of sizes that is not constant.
        """
        scale = self.axis_scales()[axis]
        if scale is None:
            raise UndecidedSize(str(self.shape[axis]), "/", str(shape_of(self.x)[axis]))
        return scale

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
        old, new, scale = shape_of(self.x)[axis], self.shape[axis], self.fixed_scale(axis)
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
        return self._rounded(self.coordinates(axis), shape_of(self.x)[axis])

    def _rounded(self, place: Array, extent: int) -> Array:
        """Round coordinates in nearest mode, and clamp them to an extent."""
        match self.nearest_mode.data:
            case NearestMode.ROUND_PREFER_FLOOR:
                place = np.ceil(place - 0.5)
            case NearestMode.ROUND_PREFER_CEIL:
                place = np.floor(place + 0.5)
            case NearestMode.FLOOR:
                place = np.floor(place)
            case NearestMode.CEIL:
                place = np.ceil(place)
        return np.clip(place, 0, extent - 1).astype(np.int64)

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
        for axis in sorted(axes, key=lambda a: (self._grows(a), -a)):
            if self.mode.data is ResizeMode.NEAREST:
                x = self._nearest_stage(x, axis)
            else:
                x = self._interpolation_stage(x, axis)
        outside = [axis for axis in axes if self._has_outside(axis)]
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

    def _grows(self, axis: int) -> bool:
        return upper_bound(self.shape[axis]) > upper_bound(shape_of(self.x)[axis])

    def _has_outside(self, axis: int) -> bool:
        """Whether some index along an axis may take the extrapolation value."""
        if self.coordinate.data is not Coordinate.TF_CROP_AND_RESIZE:
            return False
        return not is_fixed((self.shape[axis], shape_of(self.x)[axis])) or bool(
            self.outside(axis).any()
        )

    def _division(self, axis: int, rounding: Callable[[Array], Array]) -> Division | None:
        """Return small (a, b, c) with which the rounded coordinate of index i along an axis is
        (i * a + b) // c; None if there are none."""
        old, new = shape_of(self.x)[axis], self.shape[axis]
        if is_fixed((old, new)):
            return fit_division(rounding(self.coordinates(axis)), 1 / self.fixed_scale(axis))
        scale = self.axis_scales()[axis]
        if scale is None or not self._is_regular(axis, scale):
            return None
        # All coordinates of the greatest result, some of which exceed a smaller operand.
        places = (np.arange(upper_bound(new), dtype=np.float64) + self._centre()) / scale
        if self.coordinate.data is not Coordinate.TF_HALF_PIXEL_FOR_NN:
            places -= self._centre()
        return fit_division(rounding(places), 1 / scale)

    def _centre(self) -> float:
        """Return the coordinate of the first element's centre."""
        return 0.0 if self.coordinate.data is Coordinate.ASYMMETRIC else 0.5

    def _is_regular(self, axis: int, scale: float) -> bool:
        """Whether coordinates along an axis depend on the scale alone, and not on extents."""
        old, new = shape_of(self.x)[axis], self.shape[axis]
        match self.coordinate.data:
            case Coordinate.ASYMMETRIC | Coordinate.HALF_PIXEL | Coordinate.TF_HALF_PIXEL_FOR_NN:
                return True
            case Coordinate.PYTORCH_HALF_PIXEL:
                return lower_bound(new) > 1
            case Coordinate.HALF_PIXEL_SYMMETRIC:
                return constant_ratio(new, old) == scale
            case _:
                return False

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
        extent = x.shape[axis]
        limit = upper_bound(extent) if is_fixed((extent,)) else FAR
        affine = self._division(axis, lambda at: self._rounded(at, limit))
        if affine is not None and is_below(affine, self.shape[axis], extent):
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
            return read(te.index(clamped(place, x.shape[axis])))

        return self._stage(x, axis, body)

    def _interpolation_stage(self, x: te.Tensor, axis: int) -> te.Tensor:
        """Return a weighted sum of taps, with tables for weights, and for indices that are not a
        division."""
        division = None
        if axis == len(x.shape) - 1:
            division = self._division(axis, floor_positions)
        if division is None or not self._has_tap_inside(division, axis):
            return self._sum_of_places(x, axis)
        return self._sum_by_division(x, axis, *division)

    def _has_tap_inside(self, division: Division, axis: int) -> bool:
        """Whether the taps of every output overlap the axis, so that the edge is a tap if others
        are out of bounds."""
        taps, (_, offset, divisor) = self._tap_offsets(), division
        if offset // divisor + taps[-1] < 0:
            return False
        return is_below(division, self.shape[axis], shape_of(self.x)[axis] - taps[0])

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
            last = te.const(extent - 1, place.dtype)
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
            return clamped(first + te.const(tap, first.dtype), extent)

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
            weights = [te_cubic_weight(te.abs(part - tap), a) for tap in taps]
        else:
            weights = [1.0 - part, part]
        if self.exclude_outside is None:
            return weights
        zero = te.const(0.0, dtype)
        for position, tap in enumerate(taps):
            source = first + te.const(tap, dtype)
            inside = te.all(source >= 0.0, source <= te.const(extent - 1, dtype))
            weights[position] = te.select(inside, weights[position], zero)
        norm = sum(weights, zero)
        return [weight / norm for weight in weights]

    def _te_coordinate(self, axis: int, at: te.Axis, dtype: str) -> te.Expr:
        """Return the input coordinate of an output index, with the formulas of `coordinates`."""
        place = te.cast(at, dtype)
        old, new = shape_of(self.x)[axis], self.shape[axis]
        factor = self.axis_scales()[axis]

        def number(value: float) -> te.Expr:
            return te.const(value, dtype)

        scale = number(new) / number(old) if factor is None else number(factor)
        match self.coordinate.data:
            case Coordinate.ASYMMETRIC:
                return place / scale
            case Coordinate.TF_HALF_PIXEL_FOR_NN:
                return (place + number(0.5)) / scale
            case Coordinate.HALF_PIXEL:
                return (place + number(0.5)) / scale - number(0.5)
            case Coordinate.HALF_PIXEL_SYMMETRIC:
                offset = self._symmetric_offset(axis, dtype)
                return offset + (place + number(0.5)) / scale - number(0.5)
            case Coordinate.PYTORCH_HALF_PIXEL:
                several = (place + number(0.5)) / scale - number(0.5)
                return unless_single(new, several, number(0))
            case Coordinate.ALIGN_CORNERS:
                return unless_single(
                    new, place * number(old - 1) / at_least_one(new - 1, dtype), number(0)
                )
            case Coordinate.TF_CROP_AND_RESIZE:
                roi = () if self.roi is None else self.roi.get_values()
                start, end = roi[axis], roi[axis + len(self.shape)]
                slope = times(end - start, old - 1, dtype)
                several = times(start, old - 1, dtype) + place * slope / at_least_one(
                    new - 1, dtype
                )
                return unless_single(new, several, times(0.5 * (start + end), old - 1, dtype))

    def _symmetric_offset(self, axis: int, dtype: str) -> te.Expr:
        """Return the shift that centres the result, for half_pixel_symmetric."""
        old, new = shape_of(self.x)[axis], self.shape[axis]
        scale = self.axis_scales()[axis]
        if scale is None or constant_ratio(new, old) == scale:
            return te.const(0.0, dtype)
        if is_fixed((old, new)):
            return te.const(old / 2 * (1 - new / (scale * old)), dtype)
        return (te.const(old, dtype) - te.const(new, dtype) / scale) * 0.5

    def _outside_test(self, axis: int, at: te.Axis) -> te.Expr:
        place = self._te_coordinate(axis, at, "f64")
        return te.any(place < 0.0, place > te.const(shape_of(self.x)[axis] - 1, place.dtype))
