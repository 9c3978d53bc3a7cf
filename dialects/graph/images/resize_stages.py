"""Stages that resize a tensor, axis by axis.

A constant ratio of extents gives affine reads where that is exact; other positions are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tcopt.dialects.graph.core.attributes import Coordinate, NearestMode, ResizeMode
from tcopt.dialects.graph.core.types import Array, shape_of
from tcopt.dialects.graph.images.resize_positions import (
    FAR,
    Division,
    at_least_one,
    clamped,
    constant_ratio,
    fit_division,
    floor_positions,
    is_below,
    te_cubic_weight,
    times,
    unless_single,
)
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import is_fixed, lower_bound, upper_bound

if TYPE_CHECKING:
    from tcopt.dialects.graph.images.resize import ResizeOp


class ResizeStages:
    """Writer of the stages of a `graph.resize`."""

    def __init__(self, op: ResizeOp):
        self.op = op

    def of(self, x: te.Tensor) -> te.Tensor:
        """Return one interpolation stage for each axis, and one for elements outside x."""
        axes = self.op.resized_axes()
        # Shrink axes before growing others, for few elements; among these, inner axes first, for
        # long rows.
        for axis in sorted(axes, key=lambda a: (self._grows(a), -a)):
            if self.op.mode.data is ResizeMode.NEAREST:
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
                te.any(*tests), te.const(self.op.extrapolation.value.data, x.dtype), value
            )

        return te.compute(self.op.shape, body, name="resize")

    def _grows(self, axis: int) -> bool:
        return upper_bound(self.op.shape[axis]) > upper_bound(shape_of(self.op.x)[axis])

    def _has_outside(self, axis: int) -> bool:
        """Whether some index along an axis may take the extrapolation value."""
        if self.op.coordinate.data is not Coordinate.TF_CROP_AND_RESIZE:
            return False
        return not is_fixed((self.op.shape[axis], shape_of(self.op.x)[axis])) or bool(
            self.op.outside(axis).any()
        )

    def _division(self, axis: int, rounding: Callable[[Array], Array]) -> Division | None:
        """Return small (a, b, c) with which the rounded coordinate of index i along an axis is
        (i * a + b) // c; None if there are none."""
        old, new = shape_of(self.op.x)[axis], self.op.shape[axis]
        if is_fixed((old, new)):
            return fit_division(rounding(self.op.coordinates(axis)), 1 / self.op.fixed_scale(axis))
        scale = self.op.axis_scales()[axis]
        if scale is None or not self._is_regular(axis, scale):
            return None
        # All coordinates of the greatest result, some of which exceed a smaller operand.
        places = (np.arange(upper_bound(new), dtype=np.float64) + self._centre()) / scale
        if self.op.coordinate.data is not Coordinate.TF_HALF_PIXEL_FOR_NN:
            places -= self._centre()
        return fit_division(rounding(places), 1 / scale)

    def _centre(self) -> float:
        """Return the coordinate of the first element's centre."""
        return 0.0 if self.op.coordinate.data is Coordinate.ASYMMETRIC else 0.5

    def _is_regular(self, axis: int, scale: float) -> bool:
        """Whether coordinates along an axis depend on the scale alone, and not on extents."""
        old, new = shape_of(self.op.x)[axis], self.op.shape[axis]
        match self.op.coordinate.data:
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
        shape = (*x.shape[:axis], self.op.shape[axis], *x.shape[axis + 1 :])

        def element(*at: te.Axis) -> te.Expr:
            def read(place: Any) -> te.Expr:
                return x[(*at[:axis], place, *at[axis + 1 :])]

            return body(at[axis], read)

        return te.compute(shape, element, name=f"resize{axis}")

    def _nearest_stage(self, x: te.Tensor, axis: int) -> te.Tensor:
        extent = x.shape[axis]
        limit = upper_bound(extent) if is_fixed((extent,)) else FAR
        affine = self._division(axis, lambda at: self.op.rounded(at, limit))
        if affine is not None and is_below(affine, self.op.shape[axis], extent):
            scale, offset, divisor = affine
            return self._stage(x, axis, lambda at, read: read((at * scale + offset) // divisor))

        def body(at: te.Axis, read: Any) -> te.Expr:
            place = self._te_coordinate(axis, at, "f64")
            half = te.const(0.5, place.dtype)
            match self.op.nearest_mode.data:
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
        return is_below(division, self.op.shape[axis], shape_of(self.op.x)[axis] - taps[0])

    def _tap_offsets(self) -> range:
        """Return the offsets of taps from the floor of the coordinate."""
        return range(-1, 3) if self.op.mode.data is ResizeMode.CUBIC else range(2)

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
            if self.op.exclude_outside is not None:
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

        size = (self.op.shape[axis],)
        tables = [te.compute(size, partial(weight, tap), name=f"weight{axis}") for tap in taps]
        shape = (*x.shape[:axis], self.op.shape[axis], *x.shape[axis + 1 :])

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

        size = (self.op.shape[axis],)
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
        if self.op.mode.data is ResizeMode.CUBIC:
            a = self.op.cubic_a.value.data
            weights = [te_cubic_weight(te.abs(part - tap), a) for tap in taps]
        else:
            weights = [1.0 - part, part]
        if self.op.exclude_outside is None:
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
        old, new = shape_of(self.op.x)[axis], self.op.shape[axis]
        factor = self.op.axis_scales()[axis]

        def number(value: float) -> te.Expr:
            return te.const(value, dtype)

        scale = number(new) / number(old) if factor is None else number(factor)
        match self.op.coordinate.data:
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
                roi = () if self.op.roi is None else self.op.roi.get_values()
                start, end = roi[axis], roi[axis + len(self.op.shape)]
                slope = times(end - start, old - 1, dtype)
                several = times(start, old - 1, dtype) + place * slope / at_least_one(
                    new - 1, dtype
                )
                return unless_single(new, several, times(0.5 * (start + end), old - 1, dtype))

    def _symmetric_offset(self, axis: int, dtype: str) -> te.Expr:
        """Return the shift that centres the result, for half_pixel_symmetric."""
        old, new = shape_of(self.op.x)[axis], self.op.shape[axis]
        scale = self.op.axis_scales()[axis]
        if scale is None or constant_ratio(new, old) == scale:
            return te.const(0.0, dtype)
        if is_fixed((old, new)):
            return te.const(old / 2 * (1 - new / (scale * old)), dtype)
        return (te.const(old, dtype) - te.const(new, dtype) / scale) * 0.5

    def _outside_test(self, axis: int, at: te.Axis) -> te.Expr:
        place = self._te_coordinate(axis, at, "f64")
        return te.any(place < 0.0, place > te.const(shape_of(self.op.x)[axis] - 1, place.dtype))
