"""Resizing by interpolation, as ONNX defines it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import starmap

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
from tcopt.dialects.graph.images.resize_positions import constant_ratio, cubic_weight
from tcopt.dialects.graph.images.resize_stages import ResizeStages
from tcopt.dialects.te import api as te
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
        return self.rounded(self.coordinates(axis), shape_of(self.x)[axis])

    def rounded(self, place: Array, extent: int) -> Array:
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
        return ResizeStages(self).of(x)
